//! Loop nests of warp-specialised kernels, and of kernels that wait for commit groups.

use tilewright_tests::gallery;

#[test]
fn loops_of_roles_and_queues() {
    for (name, kernel) in gallery::all() {
        let nest = kernel.explain();
        // Every kernel has a grid and threads, and every line is complete.
        assert!(nest.starts_with("grid ") && nest.contains("\nblock "), "{name}: {nest}");
        assert!(!nest.contains('…') && nest.lines().all(|line| line.trim_end() == line), "{name}: {nest}");
        if ["wgmma_ring", "mma_sync"].contains(&name.as_str()) {
            insta::assert_snapshot!(name.as_str(), nest);
        }
    }
}
