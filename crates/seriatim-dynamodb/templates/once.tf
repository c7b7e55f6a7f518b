# The table in which Seriatim keeps the state of feeds, and remembers the signals that were handled.
resource "aws_dynamodb_table" "seriatim_once" {
  name         = "TABLE"
  billing_mode = "PAY_PER_REQUEST"
  hash_key     = "id"
  range_key    = "processorId"

  attribute {
    name = "id"
    type = "S"
  }

  attribute {
    name = "processorId"
    type = "S"
  }

  ttl {
    attribute_name = "expiresOn"
    enabled        = true
  }
}
