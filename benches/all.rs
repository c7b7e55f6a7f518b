//! `cargo bench -p seriatim-benches`: takes every measurement and prints it.

fn main() -> anyhow::Result<()> {
    let runtime = tokio::runtime::Runtime::new()?;
    let progress = |doing: &str| eprintln!("… {doing}");
    let rows = runtime.block_on(seriatim_benches::measure(
        seriatim_benches::NAMES,
        Default::default(),
        &Default::default(),
        &progress,
    ))?;
    for row in rows {
        let aim = if row.reaches_its_aim() { "reached" } else { "missed" };
        println!(
            "{}: {} {} of {} ({:.2}; aim {} {aim})",
            row.name, row.value, row.unit, row.limit, row.ratio, row.aim
        );
    }
    Ok(())
}
