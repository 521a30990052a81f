"""What a panel reads: the icon (org.kde.StatusNotifierItem) and its menu (com.canonical.dbusmenu).

Signals go out only when something has changed: a panel draws anew for each, and an open menu closes when its layout
does (pystray 59).
"""

# Without annotations from the future: the library reads them, and takes "None" for a type.
import html
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

from dbus_fast import DBusError, PropertyAccess, Variant
from dbus_fast.annotations import DBusBool, DBusInt32, DBusObjectPath, DBusSignature, DBusStr, DBusUInt32, DBusVariant
from dbus_fast.service import ServiceInterface, dbus_method, dbus_property, dbus_signal

from agent.desktop.tray.menu import NAME, Entry, Key, Mark, Numbers, flat, shape_of
from agent.desktop.tray.pictures import pixels

if TYPE_CHECKING:
    from agent.desktop.tray.backend import Clicked, Refresh
    from agent.desktop.tray.menu import Shown
    from agent.desktop.tray.pictures import Look

ITEM_PATH = "/StatusNotifierItem"
MENU_PATH = "/StatusNotifierItem/Menu"
_READ = PropertyAccess.READ

Pixmaps = Annotated[list[list[Any]], DBusSignature("a(iiay)")]
ToolTip = Annotated[list[Any], DBusSignature("(sa(iiay)ss)")]
Names = Annotated[list[str], DBusSignature("as")]
Ids = Annotated[list[int], DBusSignature("ai")]
Layout = Annotated[list[Any], DBusSignature("(ia{sv}av)")]
Groups = Annotated[list[list[Any]], DBusSignature("a(ia{sv})")]
Removed = Annotated[list[list[Any]], DBusSignature("a(ias)")]
Events = Annotated[list[list[Any]], DBusSignature("a(isvu)")]


class NotifierItem(ServiceInterface):
    """The icon. Left click opens; the menu is the panel's right click, or what it does for every click."""

    def __init__(self, shown: "Shown", look: "Look", clicked: "Clicked") -> None:
        super().__init__("org.kde.StatusNotifierItem")
        self._shown = shown
        self._look = look
        self._clicked = clicked

    def show(self, shown: "Shown") -> None:
        """Show another state; says to the panel what of it is new."""
        before, self._shown = self._shown, shown
        if before.picture is not shown.picture:
            self.new_icon()
            self.new_attention_icon()
        if before.tooltip != shown.tooltip:
            self.new_tool_tip()
        if before.wants_attention != shown.wants_attention:
            self.new_status(self._status)

    def ink(self, look: "Look") -> None:
        """Be drawn for a light or a dark panel from now on."""
        if look is not self._look:
            self._look = look
            self.new_icon()
            self.new_attention_icon()

    @property
    def _status(self) -> str:
        return "NeedsAttention" if self._shown.wants_attention else "Active"

    @property
    def _pixmaps(self) -> list[list[Any]]:
        return [[each.size, each.size, each.argb] for each in pixels(self._look, self._shown.picture)]

    @dbus_property(_READ, "Category")
    def category(self) -> DBusStr:
        return "ApplicationStatus"

    @dbus_property(_READ, "Id")
    def item_id(self) -> DBusStr:
        return "sapwood"

    @dbus_property(_READ, "Title")
    def title(self) -> DBusStr:
        return NAME

    @dbus_property(_READ, "Status")
    def status(self) -> DBusStr:
        return self._status

    @dbus_property(_READ, "WindowId")
    def window_id(self) -> DBusInt32:
        return 0

    @dbus_property(_READ, "IconName")
    def icon_name(self) -> DBusStr:
        return ""

    @dbus_property(_READ, "IconPixmap")
    def icon_pixmap(self) -> Pixmaps:
        return self._pixmaps

    @dbus_property(_READ, "IconThemePath")
    def icon_theme_path(self) -> DBusStr:
        return ""

    @dbus_property(_READ, "OverlayIconName")
    def overlay_icon_name(self) -> DBusStr:
        return ""

    @dbus_property(_READ, "OverlayIconPixmap")
    def overlay_icon_pixmap(self) -> Pixmaps:
        return []

    @dbus_property(_READ, "AttentionIconName")
    def attention_icon_name(self) -> DBusStr:
        return ""

    @dbus_property(_READ, "AttentionIconPixmap")
    def attention_icon_pixmap(self) -> Pixmaps:
        return self._pixmaps

    @dbus_property(_READ, "AttentionMovieName")
    def attention_movie_name(self) -> DBusStr:
        return ""

    @dbus_property(_READ, "ToolTip")
    def tool_tip(self) -> ToolTip:
        # Its text is markup for some panels.
        return ["", [], NAME, html.escape(self._shown.tooltip.removeprefix(f"{NAME}: "), quote=False)]

    @dbus_property(_READ, "ItemIsMenu")
    def item_is_menu(self) -> DBusBool:
        return False

    @dbus_property(_READ, "Menu")
    def menu(self) -> DBusObjectPath:
        return MENU_PATH

    @dbus_method("Activate")
    def activate(self, x: DBusInt32, y: DBusInt32) -> None:
        self._clicked(Key.OPEN)

    @dbus_method("SecondaryActivate")
    def secondary_activate(self, x: DBusInt32, y: DBusInt32) -> None:
        self._clicked(Key.OPEN)

    @dbus_method("ContextMenu")
    def context_menu(self, x: DBusInt32, y: DBusInt32) -> None:
        """Do nothing: the panel shows the menu itself."""

    @dbus_method("Scroll")
    def scroll(self, delta: DBusInt32, orientation: DBusStr) -> None:
        """Do nothing."""

    @dbus_signal("NewIcon")
    def new_icon(self) -> None:
        """Say that the icon is another."""

    @dbus_signal("NewAttentionIcon")
    def new_attention_icon(self) -> None:
        """Say that the icon is another."""

    @dbus_signal("NewToolTip")
    def new_tool_tip(self) -> None:
        """Say that the words are others."""

    @dbus_signal("NewStatus")
    def new_status(self, status: str) -> DBusStr:
        return status


class MenuInterface(ServiceInterface):
    """The menu, as a panel walks it. The root is number 0."""

    def __init__(self, entries: tuple[Entry, ...], clicked: "Clicked", refresh: "Refresh") -> None:
        super().__init__("com.canonical.dbusmenu")
        self._entries = entries
        self._clicked = clicked
        self._refresh = refresh
        self._numbers = Numbers()
        self._revision = 1
        for entry in flat(entries):
            self._numbers.number(entry.key)

    def show(self, entries: tuple[Entry, ...]) -> None:
        """Show other entries: only their labels and marks are sent where nothing else has changed."""
        before, self._entries = self._entries, entries
        if before == entries:
            return
        if shape_of(before) != shape_of(entries):
            self._revision += 1
            self.layout_updated(self._revision)
            return
        updated, removed = [], []
        for old, new in zip(flat(before), flat(entries), strict=True):
            had, has = properties_of(old), properties_of(new)
            number = self._numbers.number(new.key)
            changed = {name: value for name, value in has.items() if had.get(name) != value}
            if changed:
                updated.append([number, changed])
            if lost := [name for name in had if name not in has]:
                removed.append([number, lost])
        self.items_properties_updated(updated, removed)

    @dbus_property(_READ, "Version")
    def version(self) -> DBusUInt32:
        return 3

    @dbus_property(_READ, "TextDirection")
    def text_direction(self) -> DBusStr:
        return "ltr"

    @dbus_property(_READ, "Status")
    def status(self) -> DBusStr:
        return "normal"

    @dbus_property(_READ, "IconThemePath")
    def icon_theme_path(self) -> Names:
        return []

    @dbus_method("GetLayout")
    def get_layout(
        self, parent: DBusInt32, depth: DBusInt32, names: Names
    ) -> Annotated[list[Any], DBusSignature("u(ia{sv}av)")]:
        if parent == 0:
            return [self._revision, self._root(depth, names)]
        return [self._revision, self._layout(self._entry(parent), depth, names)]

    @dbus_method("GetGroupProperties")
    def get_group_properties(self, ids: Ids, names: Names) -> Groups:
        entries = flat(self._entries)
        return [
            [number, _chosen(properties_of(entry), names)]
            for entry in entries
            for number in [self._numbers.number(entry.key)]
            if not ids or number in ids
        ]

    @dbus_method("GetProperty")
    def get_property(self, number: DBusInt32, name: DBusStr) -> DBusVariant:
        found = properties_of(self._entry(number)).get(name)
        if found is None:
            raise DBusError("org.freedesktop.DBus.Error.InvalidArgs", f"it has no {name}")
        return found

    @dbus_method("Event")
    def event(self, number: DBusInt32, what: DBusStr, data: DBusVariant, at: DBusUInt32) -> None:
        self._happened(number, what)

    @dbus_method("EventGroup")
    def event_group(self, events: Events) -> Ids:
        return [number for number, what, _, _ in events if not self._happened(number, what)]

    @dbus_method("AboutToShow")
    def about_to_show(self, number: DBusInt32) -> DBusBool:
        # What is looked at now comes as a signal a moment later: a panel waits for this answer.
        self._refresh()
        return False

    @dbus_method("AboutToShowGroup")
    def about_to_show_group(self, ids: Ids) -> Annotated[list[Any], DBusSignature("aiai")]:
        self._refresh()
        return [[], [number for number in ids if number and self._numbers.key(number) is None]]

    @dbus_signal("ItemsPropertiesUpdated")
    def items_properties_updated(
        self, updated: list[list[Any]], removed: list[list[Any]]
    ) -> Annotated[list[Any], DBusSignature("a(ia{sv})a(ias)")]:
        return [updated, removed]

    @dbus_signal("LayoutUpdated")
    def layout_updated(self, revision: int) -> Annotated[list[Any], DBusSignature("ui")]:
        return [revision, 0]

    def _happened(self, number: int, what: str) -> bool:
        """Pass a click on; return whether there is such an entry."""
        if number == 0:
            return True
        key = self._numbers.key(number)
        entry = next((each for each in flat(self._entries) if each.key == key), None)
        if entry is None:
            return False
        if what == "clicked" and entry.is_enabled and not entry.is_separator and not entry.below:
            self._clicked(entry.key)
        return True

    def _entry(self, number: int) -> Entry:
        key = self._numbers.key(number)
        for entry in flat(self._entries):
            if entry.key == key:
                return entry
        raise DBusError("org.freedesktop.DBus.Error.InvalidArgs", f"there is no entry {number}")

    def _root(self, depth: int, names: Sequence[str]) -> list[Any]:
        return [0, {"children-display": Variant("s", "submenu")}, self._below(self._entries, depth, names)]

    def _layout(self, entry: Entry, depth: int, names: Sequence[str]) -> list[Any]:
        below = self._below(entry.below, depth, names)
        return [self._numbers.number(entry.key), _chosen(properties_of(entry), names), below]

    def _below(self, entries: Sequence[Entry], depth: int, names: Sequence[str]) -> list[Variant]:
        if depth == 0:
            return []
        return [Variant("(ia{sv}av)", self._layout(entry, depth - 1, names)) for entry in entries]


def properties_of(entry: Entry) -> dict[str, Variant]:
    """Return what is not the default of an entry, as the protocol names it."""
    if entry.is_separator:
        return {"type": Variant("s", "separator")}
    # An underscore would be the mark of an access key.
    found = {"label": Variant("s", entry.label.replace("_", "__"))}
    if not entry.is_enabled:
        found["enabled"] = Variant("b", False)
    if entry.mark is not Mark.NONE:
        found["toggle-type"] = Variant("s", str(entry.mark))
        found["toggle-state"] = Variant("i", int(entry.is_marked))
    if entry.below:
        found["children-display"] = Variant("s", "submenu")
    return found


def _chosen(properties: dict[str, Variant], names: Sequence[str]) -> dict[str, Variant]:
    return {name: value for name, value in properties.items() if not names or name in names}
