//! Runs the bytes of a script that were checked, even if another process changes the file meanwhile.
//!
//! [`bind`] gives a shell the text as its `-c` argument and Node.js a program that checks what it
//! reads; `$0` and `__filename` are still the path of the file. What cannot be given a text runs from
//! a private copy if only covered files may run, and otherwise from its own path. Files that a
//! script reads itself come from their own paths.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, symlink};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::{AllowedFiles, CallError, MAX_SCRIPT, Machine};
use crate::encoding::hex;
use crate::exec::invocation::ScriptFile;
use crate::exec::private_folder::{PrivateFolder, PrivatePlaces, PrivateUse};
use crate::item::source::read_bytes;

/// The most bytes that Linux takes as one argument, with its terminator.
const MAX_ARGUMENT: usize = 128 * 1024;
/// The shells that set `$0` from the argument after the code.
const SHELLS: [&str; 5] = ["bash", "sh", "dash", "ksh", "mksh"];
/// Modes of Node.js in which it does not just run a script.
const OTHER_MODES: [&str; 6] = ["--check", "-c", "--test", "--watch", "--run", "--import"];
const MAX_PACKAGE: u64 = 1024 * 1024;

/// Reads the file, compares its hash and compiles exactly these bytes as the main module.
const NODE: &str = r#"{const M=require("module"),fs=require("fs"),p=require("path"),x=process.execArgv,i=x.indexOf("-e");if(i>=0)x.splice(i,2);const h=process.argv.splice(1,1)[0],g=p.resolve(process.argv[1]);process.argv[1]=g;const f=fs.realpathSync(g),s=fs.readFileSync(f);if(require("crypto").createHash("sha256").update(s).digest("hex")!==h){process.stderr.write("the script `"+g+"` changed after it was checked\n");process.exit(126)}const m=new M(f,null);m.id=".";m.filename=f;m.paths=M._nodeModulePaths(p.dirname(f));M._cache[f]=m;process.mainModule=m;for(const n of["module","exports","require","__filename","__dirname"])delete globalThis[n];m._compile(s.toString("utf8").replace(/^\uFEFF/,"").replace(/^#!.*/,""),f);m.loaded=true}"#;

/// The bytes of a script, if they are still those that were checked.
pub(super) fn judged_bytes(script: &ScriptFile) -> Result<Vec<u8>, CallError> {
    let bytes =
        read_bytes(&script.path, MAX_SCRIPT).map_err(|source| CallError::ScriptUnreadable {
            script: script.path.clone(),
            source,
        })?;
    if hex(&Sha256::digest(&bytes)) == script.sha256 {
        Ok(bytes)
    } else {
        Err(CallError::ScriptChanged {
            script: script.path.clone(),
        })
    }
}

/// The arguments that run a script, and its copy if there is one.
#[derive(Debug)]
pub(super) struct JudgedScript {
    pub(super) arguments: Vec<OsString>,
    pub(super) copy: Option<PrivateFolder>,
}

/// Replaces the path of a script in the arguments of its interpreter.
pub(super) fn bind(
    program: &Path,
    words: Vec<OsString>,
    (script, bytes): (&ScriptFile, &[u8]),
    machine: &Machine,
) -> Result<JudgedScript, CallError> {
    let name = program
        .file_name()
        .and_then(|name| name.to_str())
        .unwrap_or_default();
    let place = words.iter().position(|word| *word == script.path);
    let options = words.get(..place.unwrap_or_default()).unwrap_or_default();
    let inserted: Option<Vec<OsString>> = if place.is_none() {
        None
    } else if SHELLS.contains(&name) {
        shell_text(bytes).map(|text| vec!["-c".into(), text])
    } else if name == "node" || name == "nodejs" {
        is_common_js(&script.path, bytes, options)
            .then(|| vec!["-e".into(), NODE.into(), script.sha256.clone().into()])
    } else {
        None
    };
    if let (Some(place), Some(inserted)) = (place, inserted) {
        let mut arguments = words;
        arguments.splice(place..place, inserted);
        return Ok(JudgedScript {
            arguments,
            copy: None,
        });
    }
    if machine.files == AllowedFiles::Any {
        return Ok(JudgedScript {
            arguments: words,
            copy: None,
        });
    }
    let places = PrivatePlaces {
        cache: &machine.cache,
        temporary: &machine.temporary,
    };
    let folder = PrivateFolder::create_apart(places, PrivateUse::Home(&machine.run));
    let folder = folder.map_err(|source| CallError::Home {
        folder: machine.temporary.clone(),
        source,
    })?;
    let copied = copy(&script.path, bytes, folder.path()).map_err(|source| CallError::Home {
        folder: folder.path().to_path_buf(),
        source,
    })?;
    let arguments = words
        .into_iter()
        .map(|word| renamed(word, &script.path, &copied))
        .collect();
    Ok(JudgedScript {
        arguments,
        copy: Some(folder),
    })
}

/// A script as an argument of `-c`. Bash does not set `BASH_SOURCE` there.
fn shell_text(bytes: &[u8]) -> Option<OsString> {
    let text = std::str::from_utf8(bytes).ok()?;
    let fits = text.len() < MAX_ARGUMENT && !text.contains('\0');
    (fits && !text.contains("BASH_SOURCE")).then(|| text.into())
}

/// Whether Node.js would run a script as a `CommonJS` module.
pub(super) fn is_common_js(script: &Path, bytes: &[u8], options: &[OsString]) -> bool {
    let is_other_mode = options
        .iter()
        .filter_map(|option| option.to_str())
        .any(|option| OTHER_MODES.iter().any(|mode| option.starts_with(mode)));
    let Ok(text) = std::str::from_utf8(bytes) else {
        return false;
    };
    match script.extension().and_then(|extension| extension.to_str()) {
        _ if is_other_mode => false,
        Some("cjs") => true,
        Some("js") | None => !looks_like_a_module(text) && !is_in_module_package(script),
        Some(_) => false,
    }
}

/// Whether a text has what only ECMAScript modules may have. In doubt, it does.
fn looks_like_a_module(text: &str) -> bool {
    text.lines().any(|line| {
        let begins = |word: &str| {
            line.trim_start()
                .strip_prefix(word)
                .is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_'))
        };
        begins("import") || begins("export") || line.contains("import.meta") || {
            !line.starts_with(char::is_whitespace) && line.contains("await ")
        }
    })
}

/// Whether the nearest `package.json` says that its scripts are ECMAScript modules.
fn is_in_module_package(script: &Path) -> bool {
    script
        .ancestors()
        .skip(1)
        .find_map(|folder| read_bytes(&folder.join("package.json"), MAX_PACKAGE).ok())
        .and_then(|bytes| serde_json::from_slice::<serde_json::Value>(&bytes).ok())
        .is_some_and(|package| package["type"] == "module")
}

/// An argument with another path of the script.
fn renamed(word: OsString, from: &Path, to: &Path) -> OsString {
    match (word.to_str(), from.to_str(), to.to_str()) {
        (Some(text), Some(from), Some(to)) if text.contains(from) => text.replace(from, to).into(),
        _ => word,
    }
}

/// Writes a read-only copy of a script.
///
/// The other entries of its folder, and of the folders above it up to `.ai`, are symlinks: the
/// script finds its neighbours where they were.
fn copy(script: &Path, bytes: &[u8], private: &Path) -> io::Result<PathBuf> {
    let folders: Vec<&Path> = script.ancestors().skip(1).collect();
    // Without `.ai`, only the neighbours in the same folder.
    let depth = folders
        .iter()
        .position(|folder| folder.file_name().is_some_and(|name| name == ".ai"))
        .unwrap_or_default();
    if let Some(project) = folders.get(depth + 1).filter(|_| depth > 0) {
        for name in ["node_modules", "package.json"] {
            if project.join(name).exists() {
                symlink(project.join(name), private.join(name))?;
            }
        }
    }
    let mut place = private.to_path_buf();
    let below = folders.iter().take(depth + 1).rev();
    let next = folders.iter().take(depth).rev().copied();
    for (folder, next) in below.zip(next.chain([script])) {
        place.push(folder.file_name().unwrap_or("script".as_ref()));
        fs::create_dir(&place)?;
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            if path != next
                && let Some(name) = path.file_name()
            {
                symlink(&path, place.join(name))?;
            }
        }
    }
    place.push(script.file_name().unwrap_or("script".as_ref()));
    fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o500)
        .open(&place)?
        .write_all(bytes)?;
    Ok(place)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_common_js_is_given_as_a_text() {
        let folder = tempfile::tempdir().unwrap();
        let (plain, module) = (folder.path().join("a"), folder.path().join("b"));
        for at in [&plain, &module] {
            fs::create_dir(at).unwrap();
        }
        fs::write(plain.join("package.json"), "{}").unwrap();
        fs::write(module.join("package.json"), r#"{"type": "module"}"#).unwrap();
        let is = |path: PathBuf, text: &str| is_common_js(&path, text.as_bytes(), &[]);
        let text = "const x = require('./x');\nasync function f() {\n  await x;\n}\nimportant();\n";
        assert!(is(plain.join("run.js"), text));
        assert!(is(plain.join("run"), text));
        assert!(is(module.join("run.cjs"), text));
        assert!(!is(module.join("run.js"), text));
        assert!(!is(plain.join("run.mjs"), text));
        assert!(!is(plain.join("run.ts"), text));
        for text in [
            "import x from 'x';",
            "import {x} from 'x'",
            "export default 1",
            "const x = await y;",
            "import.meta.url",
        ] {
            assert!(!is(plain.join("run.js"), text), "{text}");
        }
        assert!(!is_common_js(
            &plain.join("run.js"),
            b"",
            &["--test".into()]
        ));
        assert!(is_common_js(
            &plain.join("run.js"),
            b"",
            &["--max-old-space-size=64".into()]
        ));
    }

    #[test]
    fn a_copy_has_the_neighbours_of_its_script() {
        let folder = tempfile::tempdir().unwrap();
        let tool = folder.path().join(".ai/tools/greet");
        fs::create_dir_all(&tool).unwrap();
        fs::create_dir_all(folder.path().join(".ai/tools/lib")).unwrap();
        for (name, text) in [
            ("greet/run.rb", "old"),
            ("greet/lib.rb", "own"),
            ("lib/common.rb", "common"),
        ] {
            fs::write(folder.path().join(".ai/tools").join(name), text).unwrap();
        }
        let private = tempfile::tempdir().unwrap();
        let copied = copy(&tool.join("run.rb"), b"judged", private.path()).unwrap();
        assert_eq!(copied, private.path().join(".ai/tools/greet/run.rb"));
        let read = |name: &str| fs::read_to_string(copied.parent().unwrap().join(name)).unwrap();
        assert_eq!(read("run.rb"), "judged");
        assert_eq!(read("lib.rb"), "own");
        assert_eq!(read("../lib/common.rb"), "common");
        assert_eq!(fs::read_to_string(tool.join("run.rb")).unwrap(), "old");
    }
}
