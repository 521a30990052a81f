"""The owner's intent, value by value: what is in force, where it comes from, and changing it.

Keys are ``section.key``, ``sources.<id>.<key>`` and ``profiles.<name>.<key>``. Nothing here needs the memory; a broken
``config.toml`` is answered from its last good copy, and only a text that can be read takes its place.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, get_type_hints

import msgspec

from agent.actions.profile_settings import PROFILES, check_profile_value, profile_hint, wrong_profile
from agent.actions.setting_words import converted
from agent.config import Intent, SourceIntent, load_intent, parse_intent
from agent.config_edit import edit_intent
from agent.errors import ConfigBroken, UsageFault
from agent.paths import Paths
from agent.profile_intent import BUILTIN, ProfileIntent

DEFAULT, FILE, ENVIRONMENT = "default", "file", "environment"
SOURCES = "sources"
LISTED: dict[str, tuple[type[Any], str]] = {PROFILES: (ProfileIntent, "name"), SOURCES: (SourceIntent, "id")}
"""Sections of any number of tables, with the value that tells one from another."""
FIXED = ("id", "kind")


@dataclass(frozen=True)
class Setting:
    """One value in force; ``origin`` is ``default``, ``file`` or ``environment``."""

    key: str
    value: Any
    default: Any
    origin: str


@dataclass(frozen=True)
class Settings:
    """All of the intent. ``problem`` says why it is the last good copy, where it is; ``unknown`` are keys of the file
    that are no settings and change nothing.
    """

    path: Path
    problem: str | None
    values: tuple[Setting, ...]
    unknown: tuple[str, ...]
    intent: Intent

    def value(self, key: str) -> Any:
        """Return what a key names: a value, a section, one source or profile, or all. Raises ``UsageFault``."""
        found: dict[str, Any] = _plain(self.intent)
        if key in found:
            return found[key]
        section, _, rest = key.partition(".")
        if section in LISTED and not any(each.key == key for each in self.values):
            same = [one for one in getattr(self.intent, section) if getattr(one, LISTED[section][1]) == rest]
            if same:
                return _plain(same[0])
        return self.one(key).value

    def one(self, key: str) -> Setting:
        """Return one value with where it comes from. Raises ``UsageFault`` that names the nearest keys."""
        found = next((each for each in self.values if each.key == key), None)
        if found is None:
            rest = key.removeprefix(f"{PROFILES}.")
            for name in (rest, rest.rpartition(".")[0]) if rest != key else ():
                wrong = wrong_profile(self.intent, name)
                if wrong is not None:
                    raise UsageFault(f"the model profile '{name}' cannot be used", wrong.problem, wrong.hint)
            raise unknown_key(key, self.intent)
        return found

    def as_json(self) -> dict[str, Any]:
        whole: dict[str, Any] = _plain(self.intent)
        said = {each.key: each.origin for each in self.values if each.origin != DEFAULT}
        return {**whole, "origins": said, "unknown": list(self.unknown), "problem": self.problem}


@dataclass(frozen=True)
class Changed:
    """A value that was written, or taken out of the file. ``overridden_by`` names the variable that beats it."""

    key: str
    value: Any
    origin: str
    overridden_by: str | None


def settings(paths: Paths, environ: Mapping[str, str] | None = None) -> Settings:
    """Return all of the intent in force. Raises ``ConfigBroken`` where there is no good copy either."""
    environ = os.environ if environ is None else environ
    loaded = load_intent(paths, environ)
    written = _written(paths, broken=loaded.problem is not None)
    values = tuple(_settings(loaded.intent, written, environ))
    return Settings(paths.config_file, loaded.problem, values, tuple(_unknown(written, loaded.intent)), loaded.intent)


def keys(intent: Intent) -> list[str]:
    """Return the keys of all values, those of profiles and sources last."""
    return [key for key, _, _ in _places(intent)]


def change(paths: Paths, key: str, words: Sequence[str], environ: Mapping[str, str] | None = None) -> Changed:
    """Write one value into ``config.toml``, the owner's comments kept, and return what is in force then.

    A list takes one word an entry. Raises ``UsageFault`` for an unknown key and for a value that it cannot have,
    ``ConfigBroken`` where the file is broken: nothing is written then.
    """
    environ = os.environ if environ is None else environ
    intent = load_intent(paths, environ).intent
    hint = _hint(key, intent)
    value = _refused_or_same(key, converted(key, words, hint), intent)
    _check_profile(paths, key, value, intent)
    edit_intent(paths, lambda document: _put(document, key, value))
    return _changed(paths, key, environ, Changed(key, value, FILE, None))


def reset(paths: Paths, key: str, environ: Mapping[str, str] | None = None) -> Changed:
    """Take one value out of ``config.toml``, so that its default holds, and return what is in force then.

    Raises as ``change``.
    """
    environ = os.environ if environ is None else environ
    intent = load_intent(paths, environ).intent
    _hint(key, intent)
    listed, default = _listed(key), None
    if listed is not None:
        default = _default(_field(LISTED[listed[0]][0], listed[2]))
        if default is MISSING:
            must = f"a {listed[0].removesuffix('s')} must say it"
            raise UsageFault(f"{key} has no default", must, f"give it another value: sapwood config set {key} VALUE")
        _check_profile(paths, key, default, intent)
    edit_intent(paths, lambda document: _put(document, key, None))
    return _changed(paths, key, environ, Changed(key, default, DEFAULT, None))


def _check_profile(paths: Paths, key: str, value: Any, intent: Intent) -> None:
    listed = _listed(key)
    if listed is not None and listed[0] == PROFILES:
        check_profile_value(*listed[1:], value, _written(paths, broken=False), intent.models.local_hosts)


def _changed(paths: Paths, key: str, environ: Mapping[str, str], put: Changed) -> Changed:
    from agent.actions.damaged import ask_agent

    ask_agent(paths, "look")  # otherwise a tray that was switched off would stay until the next tick
    found = settings(paths, environ)
    now = next((each for each in found.values if each.key == key), None)
    if now is None:
        return put  # of a profile that has another slip still
    variable = _variable(key)
    return Changed(key, now.value, now.origin, variable if now.origin == ENVIRONMENT else None)


def _settings(intent: Intent, written: Mapping[str, Any], environ: Mapping[str, str]) -> Iterator[Setting]:
    said = {name.upper() for name in environ}
    for key, value, field in _places(intent):
        default = _default(field)
        origin = FILE if _said(written, key) else DEFAULT
        if _variable(key) in said:
            origin = ENVIRONMENT
        yield Setting(key, _plain(value), None if default is MISSING else _plain(default), origin)


def _places(intent: Intent) -> Iterator[tuple[str, Any, Field[Any]]]:
    for section, kind in _sections().items():
        for field in fields(kind):
            yield f"{section}.{field.name}", getattr(getattr(intent, section), field.name), field
    for section, (kind, called) in LISTED.items():
        for one in getattr(intent, section):
            for field in fields(kind):
                if field.name != called:
                    yield f"{section}.{getattr(one, called)}.{field.name}", getattr(one, field.name), field


def _listed(key: str) -> tuple[str, str, str] | None:
    """Return section, which of its tables, and key; ``None`` for a key of a section that is one table."""
    section, _, rest = key.partition(".")
    which, _, name = rest.rpartition(".")
    return (section, which, name) if section in LISTED else None


def _sections() -> dict[str, type[Any]]:
    hints = get_type_hints(Intent)
    return {each.name: hints[each.name] for each in fields(Intent) if is_dataclass(hints[each.name])}


def _field(kind: type[Any], name: str) -> Field[Any]:
    return next(field for field in fields(kind) if field.name == name)


def _default(field: Field[Any]) -> Any:
    return field.default if field.default_factory is MISSING else field.default_factory()


def _plain(value: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(value))


def _variable(key: str) -> str | None:
    if _listed(key) is not None:
        return None
    section, _, name = key.partition(".")
    return f"SAPWOOD_{section.upper()}__{name.upper()}"


def _written(paths: Paths, *, broken: bool) -> dict[str, Any]:
    try:
        return tomllib.loads((paths.last_good_config if broken else paths.config_file).read_text("utf-8"))
    except (OSError, ValueError):
        return {}


def _said(written: Mapping[str, Any], key: str) -> bool:
    listed = _listed(key)
    if listed is not None:
        section, which, name = listed
        return any(table.get(LISTED[section][1]) == which and name in table for table in written.get(section, ()))
    section, _, name = key.partition(".")
    return name in written.get(section, {})


def _unknown(written: Mapping[str, Any], intent: Intent) -> Iterator[str]:
    sections = _sections()
    for name, held in written.items():
        if name in LISTED:
            kind, called = LISTED[name]
            known = {field.name for field in fields(kind)}
            for table in held:
                yield from (f"{name}.{table.get(called)}.{key}" for key in table if key not in known)
        elif name not in sections:
            yield name
        else:
            known = {field.name for field in fields(sections[name])}
            yield from (f"{name}.{key}" for key in held if key not in known)


def nearest(key: str, intent: Intent) -> list[str]:
    """Return up to three keys that a wrong one may have meant."""
    known = keys(intent)
    found = get_close_matches(key, known, 3, 0.6)
    last = key.rpartition(".")[2]
    for each in known:
        if each.rpartition(".")[2] == last and each not in found:
            found.append(each)
    return found[:3]


def unknown_key(key: str, intent: Intent) -> UsageFault:
    """Return the refusal of a key, with the nearest ones that there are."""
    near = nearest(key, intent)
    hint = f"did you mean {' or '.join(near)}?" if near else "`sapwood config` lists all keys"
    return UsageFault("there is no setting with this name", key, hint)


def _hint(key: str, intent: Intent) -> Any:
    listed = _listed(key)
    if listed is not None and listed[0] == PROFILES:
        hint = profile_hint(*listed[1:], intent)
        if hint is None:
            raise unknown_key(key, intent)
        return hint
    if listed is not None:
        _, source_id, name = listed
        if intent.source(source_id) is None or name not in {field.name for field in fields(SourceIntent)}:
            raise unknown_key(key, intent)
        if name in FIXED:
            raise UsageFault(
                f"a source's {name} cannot be changed",
                "what the memory holds of it is filed under that",
                f"`sapwood remove {source_id}`, then `sapwood add` it anew",
            )
        return get_type_hints(SourceIntent, include_extras=True)[name]
    section, _, name = key.partition(".")
    kind = _sections().get(section)
    if kind is None or name not in {field.name for field in fields(kind)}:
        raise unknown_key(key, intent)
    return get_type_hints(kind, include_extras=True)[name]


def _refused_or_same(key: str, value: Any, intent: Intent) -> Any:
    """Return a value as it is to be written; raise ``UsageFault`` where its type is right and it still cannot be."""
    name = key.rpartition(".")[2] if key.startswith(f"{SOURCES}.") else key
    if name == "paths":
        found = [Path(os.path.abspath(Path(word).expanduser())) for word in value]
        for path in found:
            if not path.exists():
                raise UsageFault(f"{key} cannot be this", f"{path} is not there", "name folders or files that exist")
        return [str(path) for path in found]
    if name in ("include", "exclude"):
        from pathspec import GitIgnoreSpec

        for pattern in value:
            try:
                GitIgnoreSpec.from_lines([pattern])
            except ValueError as error:
                raise UsageFault(
                    f"{key} cannot have {pattern}", str(error), "write it as a line of .gitignore, such as 'drafts/*'"
                ) from error
    elif name == "name" and not value.strip():
        raise UsageFault(f"{key} cannot be empty", "", "say what to call it")
    elif name == "models.active":
        known = [BUILTIN, *(profile.name for profile in intent.profiles)]
        if value not in known:
            raise UsageFault("there is no such model profile", value, f"there are: {', '.join(known)}")
    elif name == "schedule.timezone" and value:
        from zoneinfo import ZoneInfo

        try:
            ZoneInfo(value)
        except (OSError, ValueError, KeyError) as error:
            raise UsageFault(
                f"there is no time zone {value}", "", "write it as Europe/Berlin; empty is the system's"
            ) from error
    elif name == "pool.min_workers" and value > intent.pool.max_workers:
        raise UsageFault(
            f"{key} cannot be {value}", f"pool.max_workers is {intent.pool.max_workers}", "raise that one first"
        )
    elif name == "pool.max_workers" and value < intent.pool.min_workers:
        raise UsageFault(
            f"{key} cannot be {value}", f"pool.min_workers is {intent.pool.min_workers}", "lower that one first"
        )
    return value


def _put(document: Any, key: str, value: Any) -> None:
    import tomlkit

    listed = _listed(key)
    if listed is not None:
        section, which, name = listed
        table = next(table for table in document[section] if table.get(LISTED[section][1]) == which)
    else:
        section, _, name = key.partition(".")
        if section not in document:
            if value is None:
                return
            document[section] = tomlkit.table()
        table = document[section]
    if value is None:
        table.pop(name, None)
    else:
        table[name] = value


def whole_text(paths: Paths) -> str:
    """Return ``config.toml`` as it stands, sound or not; empty where there is none. Raises ``OSError``."""
    try:
        return paths.config_file.read_text("utf-8", errors="replace")
    except FileNotFoundError:
        return ""


def problem_in(text: str) -> str | None:
    """Return why a text is no intent, with the line, or ``None`` for a sound one. The environment does not count."""
    try:
        found = parse_intent(text, {})
    except ConfigBroken as error:
        line = _line_of(text, error.detail)
        return f"line {line}: {error.detail}" if line else error.detail
    twice = {source.id for source in found.sources if sum(each.id == source.id for each in found.sources) > 1}
    return f"two sources have the id {', '.join(sorted(twice))}" if twice else None


def _line_of(text: str, detail: str) -> int | None:
    """Return the line of a value that a validator names by its path (``at `$.pool.max_workers```)."""
    if "at end of document" in detail:
        return max(1, len(text.splitlines()))
    _, _, path = detail.partition("`$.")
    steps = path.partition("`")[0].split(".")
    if not path or "at line" in detail:
        return None
    section, _, number = steps[0].partition("[")
    wanted = int(number.rstrip("]")) if number else 0
    name = steps[1].partition("[")[0] if len(steps) > 1 else ""
    at, current, header = -1, "", None
    for line_number, line in enumerate(text.splitlines(), start=1):
        bare = line.split("#")[0].strip()
        if bare.startswith("["):
            current = bare.strip("[] ")
            at += bare.startswith("[[") and current == section
            if current == section and (not number or at == wanted):
                header = line_number
        elif "=" in bare and name:
            key = bare.partition("=")[0].strip().strip("\"'")
            if key == f"{section}.{name}" or (key == name and current == section and (not number or at == wanted)):
                return line_number
    return header
