"""The icon in the panel: a process of its own, with several back ends behind one interface."""
