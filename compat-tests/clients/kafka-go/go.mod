module millrace/compat-tests/clients/kafka-go

go 1.26.0

require (
	github.com/segmentio/kafka-go v0.4.51
	millrace v0.0.0
)

require (
	github.com/klauspost/compress v1.20.4 // indirect
	github.com/pierrec/lz4/v4 v4.1.33 // indirect
)

replace millrace => ../../..
