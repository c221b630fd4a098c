package state

import "github.com/twmb/franz-go/pkg/kerr"

// failure is why one item of a request was refused.
type failure struct {
	code    int16
	message *string // nil where Kafka gives none
}

func fail(err *kerr.Error, message string) *failure {
	return &failure{code: err.Code, message: &message}
}

// plain is a refusal without a message of its own.
func plain(err *kerr.Error) *failure { return &failure{code: err.Code} }

// told is a refusal with the words that belong to its code.
func told(err *kerr.Error) *failure { return fail(err, err.Description) }
