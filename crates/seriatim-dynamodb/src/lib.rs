//! Seriatim on DynamoDB.
