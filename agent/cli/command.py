"""What all commands share: the global options in either place, and where a command prints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from agent.cli.output import Output

SETTINGS: dict[str, Any] = {"help_option_names": ["-h", "--help"], "max_content_width": 80}


def _keep(name: str) -> Any:
    def callback(context: click.Context, _parameter: click.Parameter, value: bool) -> None:
        if value:
            context.find_root().ensure_object(dict)[name] = True

    return callback


def global_options() -> list[click.Option]:
    """Return ``--json`` and ``--debug``, which are understood before the command's name and after it."""
    return [
        click.Option(
            ["--json"],
            is_flag=True,
            expose_value=False,
            callback=_keep("json"),
            help="Print one JSON document on stdout and nothing else there.",
        ),
        click.Option(
            ["--debug"],
            is_flag=True,
            expose_value=False,
            callback=_keep("debug"),
            help="Show where in the program an error came from.",
        ),
    ]


class SourceWord(click.ParamType[str]):
    """The id of a source; a shell completes it from the intent, without opening the memory."""

    name = "text"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        from agent.cli.completion import intent_here

        return [
            CompletionItem(source.id, help=source.name if source.name != source.id else None)
            for source in intent_here().sources
            if source.id.startswith(incomplete)
        ]


class SapwoodCommand(click.Command):
    """A command with the global options, and examples that its help keeps line by line.

    What is called ``source`` in it, an option or an argument, is completed as one.
    """

    def __init__(self, *args: Any, examples: str = "", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for each in self.params:
            if each.name == "source" and isinstance(each.type, type(click.STRING)):
                each.type = SourceWord()
        self.params.extend(global_options())
        self.context_settings = {**SETTINGS, **self.context_settings}
        self.examples = examples

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        lines = self.examples.strip().splitlines()
        if not lines:
            return
        with formatter.section("Examples"):
            for line in lines:
                formatter.write(f"{'':>{formatter.current_indent}}{line.strip()}\n")


def output_of(context: click.Context) -> Output:
    """Return where this run prints."""
    from agent.cli.output import Output

    options = context.find_root().ensure_object(dict)
    return Output(as_json=options.get("json", False), debug=options.get("debug", False))
