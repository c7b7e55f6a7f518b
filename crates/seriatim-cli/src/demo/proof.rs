//! The proof at the end: what the writers committed against what the handler's own notes say.

use std::path::Path;

use crate::error::{Error, Result};
use crate::output::{self, BAD, GOOD, PLAIN, TITLE, Table, grouped};

use super::shop;

/// What became of the changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Proof {
    /// Changes that writers committed, the orders at the beginning included.
    pub committed: u64,
    /// Changes in the handler's notes.
    pub handled: u64,
    /// Noted more than once.
    pub doubled: u64,
    /// Noted in another order than that of the order's revisions.
    pub out_of_order: u64,
    /// Customers whose totals differ from the sums over their orders.
    pub wrong_totals: u64,
    /// Customers with orders.
    pub customers: u64,
}

impl Proof {
    /// Takes it from the shop.
    pub fn of(path: &Path, committed: u64) -> Result<Self> {
        let read = || {
            shop::connect(path)?.query_row(include_str!("proof.sql"), [], |row| {
                let number = |index| row.get::<_, i64>(index).map(|number| number as u64);
                Ok(Proof {
                    committed,
                    handled: number(0)?,
                    doubled: number(1)?,
                    out_of_order: number(2)?,
                    wrong_totals: number(3)?,
                    customers: number(4)?,
                })
            })
        };
        read().map_err(|cause| Error::failed("the demo's proof cannot be read").caused_by(cause))
    }

    fn lost(&self) -> u64 {
        self.committed.saturating_sub(self.handled - self.doubled)
    }

    /// Everything is as promised.
    pub fn holds(&self) -> bool {
        self.committed == self.handled
            && (self.lost(), self.doubled, self.out_of_order, self.wrong_totals) == (0, 0, 0, 0)
    }

    /// Shows it.
    pub fn write(&self) -> Result<()> {
        let mut table = Table::default();
        let mut number = |what: &str, number: u64, good: bool| {
            let style = if good { GOOD } else { BAD };
            table.row([(PLAIN, format!("  {what}")), (style, format!("{:>9}", grouped(number)))]);
        };
        number("changes committed", self.committed, true);
        number("changes handled", self.handled, self.handled == self.committed);
        number("lost", self.lost(), self.lost() == 0);
        number("doubled", self.doubled, self.doubled == 0);
        number("out of order", self.out_of_order, self.out_of_order == 0);
        let totals = match self.wrong_totals {
            0 => (GOOD, format!("equal, for {} customers", self.customers)),
            wrong => (BAD, format!("wrong, for {wrong} customers")),
        };
        table.row([(PLAIN, "  totals".to_owned()), totals]);
        output::line("")?;
        output::line(output::styled(TITLE, "The proof"))?;
        table.write(&mut output::stdout())?;
        Ok(())
    }
}
