//! An image is linked anew when its linker script changes.

fn main() {
    println!("cargo::rerun-if-changed=image.ld");
}
