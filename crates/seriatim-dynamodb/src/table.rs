//! The table: made on request, or printed for whoever makes tables.

use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::{
    AttributeDefinition, BillingMode, KeySchemaElement, KeyType, ScalarAttributeType, TableStatus,
    TimeToLiveSpecification, TimeToLiveStatus,
};
use seriatim::store::StoreError;

use crate::error::explain;

const CLOUDFORMATION: &str = include_str!("../templates/once.cloudformation.yaml");
const TERRAFORM: &str = include_str!("../templates/once.tf");

/// How often a table that is being made is looked at, and for how long.
const LOOK_EVERY: Duration = Duration::from_millis(200);
const LOOK_AT_MOST: u32 = 600;

/// The table of a ledger, of a store, or of both.
#[derive(Clone, Debug)]
pub struct Table {
    client: Client,
    name: String,
}

impl Table {
    /// The table of this name, which need not be there yet.
    pub fn new(client: Client, name: &str) -> Self {
        Table { client, name: name.to_owned() }
    }

    /// What makes the table, for CloudFormation.
    pub fn cloudformation(name: &str) -> String {
        CLOUDFORMATION.replace("TABLE", name)
    }

    /// What makes the table, for Terraform.
    pub fn terraform(name: &str) -> String {
        TERRAFORM.replace("TABLE", name)
    }

    /// Makes the table, if it is not there, and returns when it can be used. Has DynamoDB remove expired items.
    pub async fn make(&self) -> Result<(), StoreError> {
        if self.status().await?.is_none() {
            self.create().await?;
        }
        for _ in 0..LOOK_AT_MOST {
            if self.status().await? == Some(TableStatus::Active) {
                return self.expire().await;
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        Err(StoreError::unavailable(format!("making the table {}", self.name), "it is still being made"))
    }

    /// Whether there is such a table, ready or not.
    pub async fn is_there(&self) -> Result<bool, StoreError> {
        Ok(self.status().await?.is_some())
    }

    /// Whether the table is there, and how it is.
    pub(crate) async fn status(&self) -> Result<Option<TableStatus>, StoreError> {
        match self.client.describe_table().table_name(&self.name).send().await {
            Ok(described) => Ok(described.table.and_then(|table| table.table_status)),
            Err(error)
                if error.as_service_error().is_some_and(|error| error.is_resource_not_found_exception()) =>
            {
                Ok(None)
            }
            Err(error) => Err(explain("looking for", &self.name, error)),
        }
    }

    async fn create(&self) -> Result<(), StoreError> {
        let attribute = |name: &str| {
            let attribute = AttributeDefinition::builder().attribute_name(name);
            attribute.attribute_type(ScalarAttributeType::S).build()
        };
        let key = |name: &str, kind: KeyType| {
            KeySchemaElement::builder().attribute_name(name).key_type(kind).build()
        };
        let built = "all that is required is given";
        let created = self
            .client
            .create_table()
            .table_name(&self.name)
            .billing_mode(BillingMode::PayPerRequest)
            .attribute_definitions(attribute("id").expect(built))
            .attribute_definitions(attribute("processorId").expect(built))
            .key_schema(key("id", KeyType::Hash).expect(built))
            .key_schema(key("processorId", KeyType::Range).expect(built))
            .send()
            .await;
        match created {
            Ok(_) => Ok(()),
            // Somebody else makes it at the same time.
            Err(error)
                if error.as_service_error().is_some_and(|error| error.is_resource_in_use_exception()) =>
            {
                Ok(())
            }
            Err(error) => Err(explain("making", &self.name, error)),
        }
    }

    async fn expire(&self) -> Result<(), StoreError> {
        if self.expires().await? {
            return Ok(());
        }
        let expiry = TimeToLiveSpecification::builder().attribute_name("expiresOn").enabled(true).build();
        let expiry = expiry.expect("all that is required is given");
        let update = self.client.update_time_to_live().table_name(&self.name);
        match update.time_to_live_specification(expiry).send().await {
            Ok(_) => Ok(()),
            // Somebody else has turned it on at the same time.
            Err(_) if self.expires().await? => Ok(()),
            Err(error) => Err(explain("turning expiry on for", &self.name, error)),
        }
    }

    /// Whether DynamoDB removes expired items of the table.
    pub async fn expires(&self) -> Result<bool, StoreError> {
        let described = self.client.describe_time_to_live().table_name(&self.name).send().await;
        let described = described.map_err(|error| explain("looking at the expiry of", &self.name, error))?;
        let status = described.time_to_live_description.and_then(|ttl| ttl.time_to_live_status);
        Ok(matches!(status, Some(TimeToLiveStatus::Enabled | TimeToLiveStatus::Enabling)))
    }
}
