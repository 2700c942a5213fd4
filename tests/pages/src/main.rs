//! Writes the drawings of `docs/verbs`: `cargo run -p bareverbs-pages`.

use std::{fs, io, path::Path};

fn main() -> io::Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/verbs");
    for (name, text) in bareverbs_pages::drawing::all() {
        fs::write(folder.join(name), text)?;
        println!("docs/verbs/{name}");
    }
    Ok(())
}
