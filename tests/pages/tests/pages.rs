//! The pages of the verbs: each runs its example, stands in the index, and is in the manual pages' order.

use std::{fs, path::Path};

const PARTS: [&str; 5] = ["## What it does", "## Attributes", "## Errors", "## Example", "# Ok::<()"];

#[test]
fn each_page_is_run_and_in_the_index() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |file: &str| fs::read_to_string(here.join(file)).expect(file);
    let (index, run) = (read("../../docs/verbs/README.md"), read("src/lib.rs"));
    let mut pages = 0;
    for entry in fs::read_dir(here.join("../../docs/verbs")).expect("the pages") {
        let name = entry.expect("a page").file_name().into_string().expect("a name");
        let Some(verb) = name.strip_suffix(".md").filter(|verb| *verb != "README") else { continue };
        let text = read(&format!("../../docs/verbs/{name}"));
        let parts: Vec<_> =
            PARTS.iter().map(|part| text.find(part).unwrap_or_else(|| panic!("{name}: {part}"))).collect();
        assert!(parts.is_sorted(), "{name}: the order of its parts");
        assert!(index.contains(&format!("({name})")), "{name} is not in the index");
        assert!(run.lines().any(|line| line.trim() == verb), "the example of {name} is not run");
        pages += 1;
    }
    println!("{pages} pages");
    assert!(pages >= 33);
}
