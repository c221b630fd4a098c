package suites

import (
	"path"
	"strings"
)

// wait says what tests need that is not built yet. Tests is a pattern of path.Match for each part of a test's name between
// slashes; one of fewer parts covers everything below it.
type wait struct {
	suite, tests string
	// api is an API by name: the tests are not run while it is not advertised. Where there is none, what is waited for cannot be
	// asked for: the tests are run, and wait as long as they fail here.
	api, what string
}

var waits = []wait{
	{suite: "kgo", tests: "TestTxnEtl", api: "AddPartitionsToTxn"},
	{suite: "kgo", tests: "TestGroupETL/*/848", api: "ConsumerGroupHeartbeat"},
	{suite: "kgo", tests: "TestGroupETL/*/848/*", api: "ConsumerGroupHeartbeat"},
	{suite: "kgo", tests: "TestGroupSimple/848", api: "ConsumerGroupHeartbeat"},
	{suite: "kgo", tests: "Test848*", api: "ConsumerGroupHeartbeat"},
	{suite: "kgo", tests: "TestShareGroup*", api: "ShareGroupHeartbeat"},
	{suite: "kgo", tests: "TestConsumeRegexShare*", api: "ShareGroupHeartbeat"},

	{suite: "librdkafka", tests: "0081_admin/do_test_UserScramCredentials", api: "DescribeUserSCRAMCredentials"},
	// These set ACLs with Kafka's tool first; without an authorizer Kafka refuses them too.
	{suite: "librdkafka", tests: "0109_auto_create_topics", what: "an authorizer"},
	{suite: "librdkafka", tests: "0115_producer_auth", what: "an authorizer"},
	{suite: "librdkafka", tests: "0119_consumer_auth", what: "an authorizer"},
	{suite: "librdkafka", tests: "0098_consumer_txn", api: "AddPartitionsToTxn"},
	{suite: "librdkafka", tests: "0103_transactions", api: "AddPartitionsToTxn"},
	{suite: "librdkafka", tests: "0129_fetch_aborted_msgs", api: "AddPartitionsToTxn"},
	{suite: "librdkafka", tests: "01[789]?_share_*", api: "ShareGroupHeartbeat"},

	{suite: "kafka", tests: "VerifiableConsumer/consumer-protocol", api: "ConsumerGroupHeartbeat"},
	{suite: "kafka", tests: "VerifiableShareConsumer", api: "ShareGroupHeartbeat"},
}

// waiting finds what a test waits for on a server: the API's name, and that it is not to be run; or what cannot be asked for.
func waiting(suite, test string, serves map[string]bool) (what string, run bool) {
	suite, _, _ = strings.Cut(suite, "-")
	for _, w := range waits {
		if w.suite != suite || !covers(w.tests, test) {
			continue
		}
		if w.api == "" {
			return w.what, true
		}
		if !serves[w.api] {
			return w.api, false
		}
	}
	return "", true
}

func covers(pattern, test string) bool {
	p, t := strings.Split(pattern, "/"), strings.Split(test, "/")
	if len(p) > len(t) {
		return false
	}
	for i := range p {
		if ok, err := path.Match(p[i], t[i]); err != nil || !ok {
			return false
		}
	}
	return true
}
