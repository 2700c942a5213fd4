//! Gets programs out of Debian packages without installing them.
//!
//! `apt-get` runs on a state folder of its own that says nothing is installed, so that it downloads a package with all
//! it needs, the C library too; `dpkg-deb` unpacks that into `target/tools/NAME/`, and programs are started by the
//! dynamic loader found there. The mirror is the one the system's own apt sources name.

use crate::shell::{Shell, on_path};
use crate::workspace::Workspace;
use anyhow::{Context, Result, bail};
use fs4::fs_std::FileExt;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Part of every stamp: a change of how we unpack makes everything be unpacked again.
const LAYOUT: &str = "1";

const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// Suites by which a Debian mirror is recognized among the system's apt sources.
const DEBIAN: &[&str] = &["bookworm", "trixie", "forky", "sid", "stable", "oldstable", "testing", "unstable"];

/// What to unpack, and from where.
pub struct Recipe<'a> {
    /// The folder's name below `target/tools/`.
    pub name: &'a str,
    /// The suite to take packages from, then those that may complete it.
    pub suites: &'a [&'a str],
    pub packages: &'a [&'a str],
}

/// The dynamic loader.
const LOADER: &str = "ld-linux-x86-64.so.2";

/// Where packages put their libraries; the last is one's own, which its users name in themselves.
const LIBRARIES: [&str; 3] =
    ["usr/lib/x86_64-linux-gnu", "lib/x86_64-linux-gnu", "usr/lib/x86_64-linux-gnu/pulseaudio"];

/// A folder that looks like the root of a Debian system.
#[derive(Clone)]
pub struct Root(pub PathBuf);

impl Recipe<'_> {
    /// Unpacks the packages with all they need; where that was done before, does nothing.
    pub fn unpack(&self, workspace: &Workspace, shell: &Shell) -> Result<Root> {
        let root = workspace.tools().join(self.name);
        let stamp = format!("{LAYOUT} {:?} {:?}", self.suites, self.packages);
        once(&root, &stamp, |partial| self.unpack_into(workspace, shell, partial))?;
        Ok(Root(root))
    }

    /// Unpacks the packages with all they need into an empty folder.
    pub fn unpack_into(&self, workspace: &Workspace, shell: &Shell, folder: &Path) -> Result<()> {
        shell.note(&format!("getting {} from Debian's {}", self.packages.join(" "), self.suites[0]));
        let apt = Apt::new(workspace, shell, self.suites)?;
        let archives = beside(folder, "archives");
        fs::create_dir_all(archives.join("partial"))?;
        apt.download(shell, &archives, self.packages).with_context(|| format!("cannot get {}", self.name))?;
        unpack_all(shell, &archives, folder)?;
        Ok(fs::remove_dir_all(archives)?)
    }
}

impl Root {
    pub fn join(&self, path: &str) -> PathBuf {
        self.0.join(path)
    }

    /// Puts the loader beside a program that looks for its files in the folder of `/proc/self/exe`: the program is
    /// started by the loader, which is that executable.
    pub fn put_loader_beside(&self, program: &str) -> Result<()> {
        let beside = self.join(program).with_file_name(LOADER);
        let mut loaders = LIBRARIES.iter().map(|folder| self.join(folder).join(LOADER));
        let loader = loaders.find(|file| file.is_file()).context("no dynamic loader")?;
        match fs::hard_link(loader, &beside) {
            Err(error) if !beside.is_file() => Err(error).with_context(|| beside.display().to_string()),
            _ => Ok(()),
        }
    }

    /// Starts a program of this root by this root's own dynamic loader and libraries.
    pub fn command(&self, program: &str) -> Result<Command> {
        let name = Path::new(program).file_name().context("a program without a name")?;
        self.command_as(program, &name.to_string_lossy())
    }

    /// Like [`Root::command`], for a program outside this root.
    pub fn command_in_place(&self, program: &Path) -> Result<Command> {
        let name = program.file_name().context("a program without a name")?.to_string_lossy();
        // An absolute path replaces the root's.
        self.command_as(&program.to_string_lossy(), &name)
    }

    /// Like [`Root::command`], for programs that look at the name they are called by.
    pub fn command_as(&self, program: &str, name: &str) -> Result<Command> {
        let libraries = LIBRARIES.map(|folder| self.join(folder));
        let beside = self.join(program).parent().map(|folder| folder.join(LOADER));
        let mut loaders = beside.into_iter().chain(libraries.iter().map(|folder| folder.join(LOADER)));
        let loader = loaders.find(|file| file.is_file());
        let mut command = Command::new(loader.with_context(|| format!("no dynamic loader in {}", self.0.display()))?);
        let libraries = libraries.map(|folder| folder.display().to_string()).join(":");
        command.args(["--argv0", name, "--library-path", &libraries]).arg(self.join(program));
        Ok(command)
    }
}

/// Unpacks the source of a package, without the distribution's changes.
pub fn source(workspace: &Workspace, shell: &Shell, suite: &str, package: &str) -> Result<Root> {
    let root = workspace.tools().join(format!("{package}-source"));
    let stamp = format!("{LAYOUT} {suite} {package}");
    once(&root, &stamp, |partial| {
        shell.note(&format!("getting the source of {package} from Debian's {suite}"));
        let apt = Apt::of("deb-src", workspace, shell, &[suite])?;
        let archives = beside(partial, "archives");
        fs::create_dir_all(&archives)?;
        let mut get = apt.command();
        get.current_dir(&archives).args(["source", "--download-only", "--tar-only", package]);
        shell.check(&mut get).with_context(|| format!("cannot get the source of {package}"))?;
        for tar in fs::read_dir(&archives)? {
            let mut unpack = Command::new("tar");
            unpack.arg("-C").arg(partial).args(["--strip-components=1", "-xf"]).arg(tar?.path());
            shell.check(&mut unpack)?;
        }
        Ok(fs::remove_dir_all(archives)?)
    })?;
    Ok(Root(root))
}

/// Makes a folder unless one with this stamp is there. `make` fills a new folder, which then takes the old one's place.
/// Others who want the same folder wait until it is done.
pub fn once(folder: &Path, stamp: &str, make: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
    let stamped = || fs::read_to_string(folder.join("stamp")).is_ok_and(|found| found == stamp);
    if stamped() {
        return Ok(());
    }
    let _lock = lock(folder)?;
    if stamped() {
        return Ok(());
    }
    let partial = beside(folder, "partial");
    for left_over in [&partial, folder] {
        if left_over.exists() {
            fs::remove_dir_all(left_over)?;
        }
    }
    fs::create_dir_all(&partial)?;
    make(&partial)?;
    fs::write(partial.join("stamp"), stamp)?;
    fs::rename(&partial, folder).with_context(|| folder.display().to_string())
}

/// The folder's name with an ending (not in place of one: `qemu-7.2` has none).
fn beside(folder: &Path, ending: &str) -> PathBuf {
    let mut name = folder.as_os_str().to_owned();
    name.push(".");
    name.push(ending);
    name.into()
}

/// Held until it is dropped, by one process at a time.
fn lock(folder: &Path) -> Result<File> {
    let path = beside(folder, "lock");
    fs::create_dir_all(path.parent().context("a lock in no folder")?)?;
    let file = File::create(&path).with_context(|| path.display().to_string())?;
    file.lock_exclusive()?;
    Ok(file)
}

/// `apt-get` with its own sources and its own idea of what is installed: nothing.
struct Apt {
    folder: PathBuf,
    suite: String,
}

impl Apt {
    fn new(workspace: &Workspace, shell: &Shell, suites: &[&str]) -> Result<Self> {
        Self::of("deb", workspace, shell, suites)
    }

    /// For packages (`deb`) or their sources (`deb-src`).
    fn of(kind: &str, workspace: &Workspace, shell: &Shell, suites: &[&str]) -> Result<Self> {
        if on_path("apt-get").is_none() || on_path("dpkg-deb").is_none() {
            bail!(
                "tools that are not on PATH are unpacked out of Debian packages, but this machine has no apt-get and dpkg-deb"
            );
        }
        let folder = workspace.tools().join(format!("{}-{}", kind.replace("deb", "apt"), suites.join("-")));
        let apt = Self { folder: folder.clone(), suite: suites[0].to_owned() };
        once(&folder, LAYOUT, |partial| {
            let mirror = mirror(shell)?;
            let sources = suites.iter().map(|suite| format!("{kind} [signed-by={KEYRING}] {mirror} {suite} main\n"));
            fs::write(partial.join("sources.list"), sources.collect::<String>())?;
            fs::write(partial.join("status"), "")?;
            fs::create_dir_all(partial.join("lists/partial"))?;
            let apt = Self { folder: partial.to_owned(), suite: apt.suite.clone() };
            shell.check(apt.command().arg("update")).map(drop).context("apt cannot read the mirror's lists")
        })?;
        Ok(apt)
    }

    fn command(&self) -> Command {
        let path = |name: &str| self.folder.join(name).display().to_string();
        let mut command = Command::new("apt-get");
        let options = [
            format!("Dir::Etc::sourcelist={}", path("sources.list")),
            "Dir::Etc::sourceparts=/dev/null".to_owned(),
            format!("Dir::State::lists={}", path("lists")),
            format!("Dir::State::status={}", path("status")),
            format!("Dir::Cache={}", path("cache")),
            format!("APT::Default-Release={}", self.suite),
            "APT::Architecture=amd64".to_owned(),
            "APT::Update::Error-Mode=any".to_owned(),
            "APT::Sandbox::User=root".to_owned(),
            "Acquire::Retries=3".to_owned(),
            "Acquire::Languages=none".to_owned(),
            // The system's locks are not ours to take: they would need root.
            "Debug::NoLocking=1".to_owned(),
        ];
        command.arg("-q").args(options.iter().flat_map(|option| ["-o", option]));
        command
    }

    fn download(&self, shell: &Shell, archives: &Path, packages: &[&str]) -> Result<()> {
        fs::create_dir_all(self.folder.join("cache"))?;
        let mut command = self.command();
        command.args(["-o", &format!("Dir::Cache::archives={}", archives.display())]);
        command.args(["install", "-y", "--no-install-recommends", "--download-only"]).args(packages);
        shell.check(&mut command).map(drop)
    }
}

/// The mirror that the system itself uses for Debian.
fn mirror(shell: &Shell) -> Result<String> {
    let mut command = Command::new("apt-get");
    command.args([
        "indextargets",
        "--no-release-info",
        "--format",
        "$(RELEASE) $(COMPONENT) $(REPO_URI)",
        "Identifier: Packages",
    ]);
    let targets = shell.check(&mut command)?;
    let uri = targets.lines().find_map(|line| match line.split(' ').collect::<Vec<_>>()[..] {
        [suite, "main", uri] if DEBIAN.contains(&suite) => Some(uri.to_owned()),
        _ => None,
    });
    uri.context("this machine's apt sources name no Debian mirror")
}

fn unpack_all(shell: &Shell, archives: &Path, root: &Path) -> Result<()> {
    let mut packages: Vec<PathBuf> = fs::read_dir(archives)?.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    packages.retain(|path| path.extension().is_some_and(|end| end == "deb"));
    // Whatever was built on the merged /usr lands there if its links are there first.
    packages.sort_by_key(|path| (!path.to_string_lossy().contains("/base-files_"), path.clone()));
    for package in packages {
        shell.check(Command::new("dpkg-deb").arg("-x").arg(package).arg(root))?;
    }
    Ok(())
}
