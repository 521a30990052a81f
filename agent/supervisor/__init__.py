"""Launching and restarting processes, the tick, the control channel. Processes are given as dotted names."""

from agent.supervisor.result import CompanionSpec, Ended, SupervisorArgs, SupervisorResult

__all__ = ["CompanionSpec", "Ended", "SupervisorArgs", "SupervisorResult", "supervise"]


def supervise(args: SupervisorArgs) -> SupervisorResult:
    """Run the agent until it ends (``agent.supervisor.start.supervise``); blocks, main thread only."""
    # Commands that only call the running agent do not pay for the loop.
    from agent.supervisor.start import supervise as run

    return run(args)
