# Runs one Python file for piton. Python 3.8 and later; imports as little as it can, because every
# call of a tool pays for it. Standard input holds one line of JSON and then the bytes of the file.
import sys

# `-c` put the working folder here: nothing of the project may stand in for a module of Python.
if sys.path and sys.path[0] == "":
    del sys.path[0]

import json
import os
import re

HERE = sys._getframe().f_code.co_filename
PROCESS = os.getpid()
# What `importlib` is made of; always there, and costs nothing.
machinery = sys.modules["_frozen_importlib"]
load = sys.modules["_frozen_importlib_external"]


def read_input():
    parts = []
    while True:
        part = os.read(0, 1 << 20)
        if not part:
            break
        parts.append(part)
    head, _, source = b"".join(parts).partition(b"\n")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    return json.loads(head), source


class Channel:
    """Where the result goes; never to a program that the file starts."""

    def __init__(self, is_there):
        self.descriptor = None
        if is_there:
            self.descriptor = os.dup(3)
            os.close(3)

    def send(self, message):
        # A fork that returns from the file is not the one that was called.
        if self.descriptor is None or os.getpid() != PROCESS:
            return
        data = message.encode("utf-8")
        data = len(data).to_bytes(4, "big") + data
        while data:
            data = data[os.write(self.descriptor, data) :]
        os.close(self.descriptor)
        self.descriptor = None


class NoJson(Exception):
    """Part of a result has no form in JSON."""


def plain(value):
    """Gives a value that JSON does not know a form that it knows."""
    if isinstance(value, (set, frozenset)):
        try:
            return sorted(value)
        except TypeError:
            return list(value)
    if isinstance(value, os.PathLike):
        return os.fsdecode(value)
    if isinstance(value, (bytes, bytearray)):
        try:
            return value.decode("utf-8")
        except UnicodeDecodeError:
            raise NoJson("bytes that are not UTF-8 text") from None
    kind = type(value)
    if not isinstance(value, type):
        fields = getattr(kind, "__dataclass_fields__", None)
        if fields is not None:
            return {name: getattr(value, name) for name in fields if hasattr(value, name)}
        names = {(base.__module__, base.__name__) for base in kind.__mro__}
        if ("enum", "Enum") in names:
            return value.value
        if {("datetime", "date"), ("datetime", "time")} & names:
            return value.isoformat()
        if {("decimal", "Decimal"), ("uuid", "UUID")} & names:
            return str(value)
    if isinstance(value, type):
        raise NoJson("the class `%s`" % value.__qualname__)
    raise NoJson("a value of type `%s`" % kind.__qualname__)


def digits(value):
    """The beginning of a long number."""
    try:
        text = "%d" % value
    except ValueError:
        # Python refuses to write very long ones in full.
        return "with %d bits" % value.bit_length()
    return text if len(text) <= 60 else text[:60] + "…"


def trouble(value, where, seen):
    """Finds the part of a value that has no form in JSON, for a message that helps."""
    if isinstance(value, float):
        if value != value or value in (float("inf"), float("-inf")):
            return where, "the number %r" % value
        return None
    if isinstance(value, int) and not -(1 << 63) <= value < 1 << 64:
        return where, "an integer of more than 64 bits, %s" % digits(value)
    if value is None or isinstance(value, (str, int)):
        return None
    if id(value) in seen:
        return where, "a value that contains itself"
    seen = seen | {id(value)}
    if isinstance(value, dict):
        for key, part in value.items():
            if not (key is None or isinstance(key, (str, int, float))):
                return where, "a key of type `%s`" % type(key).__qualname__
            found = trouble(part, "%s[%r]" % (where, key), seen)
            if found:
                return found
        return None
    if isinstance(value, (list, tuple)):
        for index, part in enumerate(value):
            found = trouble(part, "%s[%d]" % (where, index), seen)
            if found:
                return found
        return None
    try:
        return trouble(plain(value), where, seen)
    except NoJson as what:
        return where, str(what)


def to_json(value):
    try:
        text = json.dumps(value, default=plain, allow_nan=False, ensure_ascii=False)
    except RecursionError:
        raise NoJson("too deeply nested") from None
    except (TypeError, ValueError, NoJson) as error:
        try:
            where, what = trouble(value, "result", frozenset()) or ("result", str(error))
        except RecursionError:
            where, what = "result", "a value that is too deeply nested"
        raise NoJson("no JSON: %s at `%s`" % (what, where)) from None
    # Whoever reads it would make a rounded number of it, without a word.
    if re.search("[0-9]{19}", text):
        found = trouble(value, "result", frozenset())
        if found:
            raise NoJson("not exact as JSON: %s at `%s`" % (found[1], found[0]))
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        # Names of files that are not UTF-8 come as halves of characters.
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


class Alias:
    """Lets `name` be the same module as `lib.name`."""

    def __init__(self, name):
        self.name = "lib." + name

    def create_module(self, spec):
        __import__(self.name)
        self.spec = sys.modules[self.name].__spec__
        return sys.modules[self.name]

    def exec_module(self, module):
        # Python has just told it to be the other one, and relative imports go by this.
        module.__spec__ = self.spec


def alias_of(name, path):
    found = machinery._find_spec("lib." + name, path)
    if found is None:
        return None
    is_package = found.submodule_search_locations is not None
    return machinery.ModuleSpec(name, Alias(name), origin=found.origin, is_package=is_package)


class Source(load.SourceFileLoader):
    """Reads modules without the bytecode in `__pycache__`, which no stamp covers."""

    def path_stats(self, path):
        # Python compares bytecode with this, and does without it where it cannot.
        raise OSError("bytecode does not count")


def spec_of(name, file):
    if os.path.isdir(file):
        # A package without `__init__.py`.
        spec = machinery.ModuleSpec(name, None, is_package=True)
        spec.submodule_search_locations.append(file)
        return spec
    loader = Source(name, file) if file.endswith(".py") else None
    return load.spec_from_file_location(name, file, loader=loader)


def read_sources(folders):
    """Has Python read the modules below these folders from their sources."""
    folders = [os.path.join(os.path.realpath(folder), "") for folder in folders]
    import _imp

    loaders = [
        (load.ExtensionFileLoader, _imp.extension_suffixes()),
        (Source, load.SOURCE_SUFFIXES),
        (load.SourcelessFileLoader, load.BYTECODE_SUFFIXES),
    ]

    def find(path):
        real = os.path.join(os.path.realpath(path), "")
        if not real.startswith(tuple(folders)) or not os.path.isdir(real):
            raise ImportError("not a folder of the tool", path=path)
        return load.FileFinder(path, *loaders)

    sys.path_hooks.insert(0, find)
    for path in [path for path in sys.path_importer_cache if os.path.join(path, "").startswith(tuple(folders))]:
        del sys.path_importer_cache[path]


class Library:
    """Finds the modules of the project's library that the tool named, and no others of it."""

    def __init__(self, modules):
        self.modules = modules

    def find_spec(self, name, path=None, target=None):
        if name == "lib":
            return machinery.ModuleSpec("lib", None, is_package=True)
        head, _, rest = name.partition(".")
        if head != "lib":
            # A part of a package that was imported by its bare name.
            is_ours = rest and head in self.modules and sys.modules.get(head) is sys.modules.get("lib." + head)
            return alias_of(name, path) if is_ours else None
        head, _, rest = rest.partition(".")
        if head not in self.modules:
            text = "`%s` is not among the `lib_imports` of this tool" % name
            raise ModuleNotFoundError(text, name=name)
        return None if rest else spec_of(name, self.modules[head])


class BareLibrary:
    """The same modules by their bare names, after everything that Python itself finds."""

    def __init__(self, modules):
        self.modules = modules

    def find_spec(self, name, path=None, target=None):
        return alias_of(name, path) if name in self.modules else None


class Uncovered:
    """Says why a module beside a script is not found where signatures are required."""

    def __init__(self, folder):
        self.folder = folder

    def find_spec(self, name, path=None, target=None):
        beside = os.path.join(self.folder, name)
        if path is None and (os.path.isfile(beside + ".py") or os.path.isdir(beside)):
            text = "`%s` lies beside this file, and no stamp covers it: put both into the folder of a tool" % name
            raise ModuleNotFoundError(text, name=name)
        return None


def expose(modules, folder, script):
    # Beside a script at the top of the tools lies the whole library, which Python would find.
    beside = os.path.join(os.path.dirname(script), "lib")
    if modules or os.path.realpath(beside) == os.path.realpath(folder):
        sys.meta_path.insert(0, Library(modules))
        sys.meta_path.append(BareLibrary(modules))


def module_name(script):
    stem = os.path.splitext(os.path.basename(script))[0]
    known = getattr(sys, "stdlib_module_names", ())
    return "piton_tool_" + stem if stem in sys.modules or stem in known else stem


def load_module(name, script, source):
    code = compile(source, script, "exec", dont_inherit=True)
    module = type(sys)(name)
    module.__file__ = script
    module.__builtins__ = __builtins__
    module.__loader__ = load.SourceFileLoader(name, script)
    if name != "__main__":
        module.__spec__ = machinery.ModuleSpec(name, module.__loader__, origin=script)
        module.__spec__.has_location = True
        module.__package__ = ""
    sys.modules[name] = module
    exec(code, module.__dict__)
    return module


def execute(function, parameters, project):
    """Calls a function as RYE does: with all parameters as one value, and with the project."""
    code = getattr(function, "__code__", None)
    names = code.co_varnames[: code.co_argcount] if code else ("params", "project_path")
    # A file may also name each parameter.
    if not names or names[0] in parameters:
        return function(**parameters)
    return function(*(parameters, project)[: len(names)])


def call(asked, script, source):
    kind = asked["call"]
    if kind == "script":
        load_module("__main__", script, source)
        return None
    module = load_module(module_name(script), script, source)
    if kind == "parse":
        value = module.parse(asked["parameters"]["content"])
    elif kind == "execute":
        value = execute(module.execute, **asked["parameters"])
    else:
        value = module.main(**asked["parameters"])
    if hasattr(value, "__await__") and hasattr(value, "send"):
        import asyncio

        value = asyncio.run(value)
    return value


def own_part(error):
    """The traceback without the frames of this file."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename == HERE:
        trace = trace.tb_next
    return trace


def complain(error, channel):
    """Shows an exception as Python would, and tells it."""
    trace = own_part(error)
    error = error.with_traceback(trace)
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        pass
    sys.excepthook(type(error), error, trace)
    try:
        message = str(error)
    except Exception:
        message = ""
    try:
        import traceback

        text = "".join(traceback.format_exception(type(error), error, trace))
    except Exception:
        text = ""
    told = {"type": type(error).__qualname__, "message": message, "traceback": text}
    channel.send(to_json({"error": told}))


def run():
    # As arguments, because JSON cannot hold names that are not Unicode.
    script, library = sys.argv[1:3]
    asked, source = read_input()
    channel = Channel(asked["call"] != "script")
    # piton reads UTF-8, and a line that was printed is not lost with a process that is killed.
    sys.stdout.reconfigure(encoding="utf-8", errors="surrogateescape", line_buffering=True)
    sys.stderr.reconfigure(encoding="utf-8", errors="backslashreplace", line_buffering=True)
    sys.argv = [script] + asked["arguments"]
    if not asked["alone"]:
        sys.path.insert(0, os.path.dirname(script))
    if asked["files"] == "covered":
        # For the interpreters that it starts; nothing can lie below.
        os.environ.setdefault("PYTHONPYCACHEPREFIX", os.devnull)
    modules = {name: os.path.join(library, file) for name, file in asked["lib_imports"].items()}
    # Packages may be those of the user's library.
    packages = [file if os.path.isdir(file) else os.path.dirname(file) for file in modules.values()]
    read_sources([os.path.dirname(script), library] + packages)
    expose(modules, library, script)
    if asked["alone"]:
        sys.meta_path.append(Uncovered(os.path.dirname(script)))
    try:
        value = call(asked, script, source)
    except SystemExit:
        channel.send('{"exit": true}')
        raise
    except BaseException as error:
        complain(error, channel)
        sys.exit(130 if isinstance(error, KeyboardInterrupt) else 1)
    try:
        text = to_json({"ok": value})
    except NoJson as error:
        message = str(error).replace("result['ok']", "result", 1)
        sys.stdout.flush()
        sys.stderr.write("the result is %s\n" % message)
        channel.send(to_json({"error": {"type": "NoJson", "message": message, "traceback": ""}}))
        sys.exit(1)
    except BaseException as error:
        complain(error, channel)
        sys.exit(1)
    channel.send(text)


run()
