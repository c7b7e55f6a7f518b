//! A window in the hands of an operator: looked at, followed. There is nothing to install.

use async_trait::async_trait;
use seriatim::change::Position;
use seriatim::source::{Blocker, Consumer, Feed, Install, Installed, Shape, SourceError, Start};

use super::{WindowCapture, check};

#[async_trait]
impl Install for WindowCapture {
    async fn check(&self) -> Result<Installed, SourceError> {
        self.look("checking", check::check).await?;
        Ok(Installed::Installed)
    }

    async fn install_sql(&self) -> Result<String, SourceError> {
        self.look("checking", check::check).await?;
        Ok(format!("-- feed {}: a window installs nothing\n", self.settings.names.feed))
    }

    async fn install(&self, consumer: &Consumer, start: &Start) -> Result<Position, SourceError> {
        self.open(consumer, start).await
    }

    async fn newest(&self) -> Result<Position, SourceError> {
        self.starts(&Start::Now).await
    }

    async fn oldest(&self) -> Result<Position, SourceError> {
        self.starts(&Start::Beginning).await
    }

    async fn advice(&self) -> Result<Vec<Blocker>, SourceError> {
        self.look("checking", check::missing_index).await
    }

    async fn shape(&self) -> Result<Shape, SourceError> {
        self.look("looking at", |_, _, relation| {
            let names = |columns: &seriatim::Columns| columns.names().map(str::to_owned).collect();
            Ok(Shape { columns: names(&relation.chosen.columns), key: names(&relation.key_columns) })
        })
        .await
    }
}
