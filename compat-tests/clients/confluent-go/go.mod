module millrace/compat-tests/clients/confluent-go

go 1.26.0

require (
	github.com/confluentinc/confluent-kafka-go/v2 v2.11.1
	millrace v0.0.0
)

replace millrace => ../../..
