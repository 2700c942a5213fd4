//! The drawings in the documentation are those of the table and the code.

use std::{fs, path::Path};

#[test]
fn the_drawings_are_those_of_the_code() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/verbs");
    for (name, text) in bareverbs_pages::drawing::all() {
        let kept = fs::read_to_string(folder.join(name)).unwrap_or_default();
        assert!(kept == text, "docs/verbs/{name} is not what the code says: cargo run -p bareverbs-pages");
    }
}

/// A drawing of a table with another row would be another.
#[test]
fn each_row_of_the_table_is_in_a_drawing() {
    let drawings = bareverbs_pages::drawing::all();
    for row in bareverbs::qp::TRANSITIONS {
        for kind in row.kinds {
            let title = format!("<title>QP of type {kind:?}</title>");
            let (_, text) = drawings.iter().find(|(_, text)| text.contains(&title)).expect("a drawing of the type");
            assert!(text.contains(&format!("{} to {}: needs", row.from, row.to)), "{kind:?}: {row:?}");
        }
    }
}
