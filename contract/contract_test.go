package contract_test

import (
	"maps"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// unseen are the states of the document that this test cannot cause, and why. A
// key that ends with an asterisk stands for every state that begins so; one
// that begins with an asterisk, for every state that ends so.
var unseen = map[string]string{
	"* 500":                     "no request makes the server fail",
	"* 500 internal":            "no request makes the server fail",
	"Problem.code = internal":   "no request makes the server fail",
	"* 429 overloaded":          "a client alone is never faster than the server",
	"* 429":                     "the same, besides endpoints that are tested too often",
	"Problem.code = overloaded": "the same",

	"* 429 too_many_reads":          "a client alone is never faster than its share of reads",
	"Problem.code = too_many_reads": "the same",

	"publish-event 429 filter_quota_used":  "a test of ingest has filters that take too much time",
	"publish-events 429 filter_quota_used": "the same",
	"Problem.code = filter_quota_used":     "the same",

	"ConditionExplanation.text is null: true": "a test of the API explains a condition with internal to a customer",
	"DeadLetter.reason = filter_failed":       "a script of the command has a condition that fails",
	"DeadLetterGroup.reason = filter_failed":  "the same",
	"Delivery.reason = filter_failed":         "the same",
	"publish-event 503 disk_full":             "a test of the server fills a disk",
	"publish-events 503 disk_full":            "the same",
	"Problem.code = disk_full":                "the same",

	"* 410":               "the data of events is never deleted yet",
	"* 410 gone":          "the same",
	"Problem.code = gone": "the same",

	"put-event-type 404":                            "it adds the event type",
	"put-event-type 404 not_found":                  "the same",
	"* 409 conflict":                                "another client has to change the same object at the same moment, several times",
	"delete-endpoint 409":                           "the same",
	"put-account 409":                               "the same",
	"put-event-type 409":                            "the same",
	"update-event-type 409":                         "the same",
	"put-endpoint 409 uid_taken":                    "the same",
	"Problem.code = conflict":                       "the same",
	"LastFailure.error is null: true":               "a failure always has an error",
	"Delivery.reason = system":                      "it takes a store that lost data",
	"DeadLetter.reason = system":                    "it takes a store that lost data",
	"DeadLetterGroup.reason = system":               "the same",
	"release-delivery 200":                          "a delivery is parked after the server died five times with it alone",
	"Waiting.reason = parked":                       "the same",
	"Pace.reason = postponed":                       "the server has to lack descriptors, ports or memory",
	"Waiting.reason = no_secret":                    "the last secret that does not expire cannot be revoked",
	"Endpoint.warnings[]*":                          "the last secret that does not expire cannot be revoked",
	"Waiting.reason = policy_unreadable":            "the stored policy of an endpoint has to be damaged",
	"Endpoint.policy_error is null: false":          "the same",
	"* 409 endpoint_set_aside":                      "the same",
	"Problem.code = endpoint_set_aside":             "the same",
	"get-attempt-request 409 request_unknown":       "the credentials of an endpoint have to be damaged",
	"Problem.code = request_unknown":                "the same",
	"SecretState.state = unreadable":                "a secret of an endpoint has to be damaged",
	"SecretState.type = <nil>":                      "the same",
	"SecretState.type is null: true":                "the same",
	"Explanation.action = release":                  "a delivery is parked after the server died five times with it alone",
	"Explanation.action = rotate_secret":            "the last secret that does not expire cannot be revoked",
	"Explanation.action = set_policy":               "the stored policy of an endpoint has to be damaged",
	"AttemptRequest.body_bytes is null: true":       "the data of events is never deleted yet",
	"AttemptRequest.body_sha256 is null: true":      "the same",
	"SignedContent.bytes is null: true":             "the same",
	"SignedContent.sha256 is null: true":            "the same",
	"Verdict.reason is null: false":                 "an inspector gets what the server has signed, so it verifies",
	"Verdict.secret is null: true":                  "the same",
	"WhatIfResult.next_cursor is null: false":       "a comparison has to take five seconds",
	"Hold.reason = restored":                        "the server has to start on a store that was restored",
	"Hold.reason = recovered":                       "the same",
	"Expunge.ended_at is null: false":               "an expunge ends 15 minutes after the last row was found",
	"Expunge.still_held[] = backups_without_list":   "the server keeps a list",
	"Expunge.still_held[] = archive":                "an expunge ends 15 minutes after the last row was found",
	"Expunge.archive_error is null: false":          "the same",
	"ArchivePart*":                                  "a day is archived when it is older than a day",
	"ArchiveVerification*":                          "the same",
	"ArchiveRecord.*":                               "the same",
	"ArchiveRecordPage.next_cursor is null: false":  "the same",
	"ArchiveFound.next_cursor is null: false":       "the same",
	"ArchiveRestored.next_cursor is null: false":    "the same",
	"verify-archive-part 200":                       "the same",
	"* 503 archive_unavailable":                     "the same: only a part is read",
	"* 503 expunge_list_unwritable":                 "the list of the server can be written",
	"Problem.code = archive_unavailable":            "the same",
	"Problem.code = expunge_list_unwritable":        "the list of the server can be written",
	"* 409 archive_damaged":                         "the same",
	"Problem.code = archive_damaged":                "the same",
	"* 409 no_archive":                              "the server has an archive",
	"Problem.code = no_archive":                     "the same",
	"list-archive-parts 409":                        "the same",
	"verify-archive-part 409":                       "the same",
	"search-archive 409":                            "the same, and a damaged part",
	"restore-archive 409":                           "the same",
	"get-archive-comparison 409":                    "the same",
	"cancel-archive-comparison 409":                 "the same",
	"ArchiveComparison.status = failed":             "a damaged part",
	"ArchiveComparison.error is null: false":        "the same",
	"create-expunge 409":                            "a damaged part",
	"Hold.reason is null: false":                    "the same",
	"Hold.since is null: false":                     "the same",
	"EndpointHealth.reason = failing":               "an endpoint has to fail for six hours",
	"EndpointState.health_reason = failing":         "the same",
	"Replay.status = failed":                        "a step of a replay has to fail ten times, for a reason that does not pass",
	"Replay.error is null: false":                   "the same",
	"Problem.code = replay_failed":                  "the same",
	"* 409 replay_failed":                           "the same",
	"Session.kind = operator":                       "a person logs in through a page, not through the API",
	"Session.account is null: true":                 "the same",
	"Session.key is null: true":                     "the same, with an identity provider",
	"Session.subject is null: false":                "the same, with an identity provider",
	"Session.last_seen_at is null: false":           "a session is used through a page, not through the API",
	"AuditEntry.session is null: false":             "the same",
	"AuditEntry.key is null: true":                  "a login that fails, and one with an identity provider",
	"* 422 mail_missing":                            "the server has a mail server",
	"Problem.code = mail_missing":                   "the same",
	"ask-notice-destination 422 public_url_missing": "an address is added by a server that has a public URL",
	"Destination.state = unsubscribed":              "a reader does that through a page, not through the API",
	"* 409 destination_unsubscribed":                "the same",
	"Problem.code = destination_unsubscribed":       "the same",
	"Destination.state = refused":                   "a mail server does that, and there is none",
	"Expunge.outbox_error is null: false":           "a test of expunges has an outbox that is away",
}

// fleeting are states that depend on the moment, so that a request may miss them.
var fleeting = map[string]string{
	"Explanation.last_failure is null: false":       "a delivery that waits for a circuit that failures opened",
	"LastFailure.outcome = blocked":                 "only until another request of the endpoint fails",
	"LastFailure.outcome = timed_out":               "the same",
	"Node.started_at is null: false":                "the nodes of PostgreSQL have it, the one of SQLite has not",
	"Node.started_at is null: true":                 "the one node of SQLite",
	"SourceState.at is null: false":                 "a reader writes it some seconds after the source was stored",
	"SourceState.oldest_at is null: false":          "until the next of these figures, which come every ten seconds",
	"SourceState.error is null: false":              "the same as SourceState.at",
	"SourceState.error_since is null: false":        "the same as SourceState.at",
	"Node.status = dead":                            "from the death of a node until another has reclaimed what it leased",
	"Node.status = leaving":                         "from the signal to a node until its end",
	"TroubledEndpoint.reasons[] = disabled":         "an endpoint that was disabled for its failures, until a person enables it",
	"TroubledEndpoint.reasons[] = failing":          "five minutes of failures that do not open the circuit",
	"TroubledEndpoint.reasons[] = waiting":          "five minutes in which a delivery is due and does not leave",
	"TroubledEndpoint.oldest_due_ms is null: false": "the same",
	"Circuit.pace is null: true":                    "a server that does not send to the endpoint, while others own its shard",
	"TroubledEndpoint.status = disabled":            "like the reason disabled",
	"TroubledEndpoint.status = paused":              "an endpoint that is paused while it fails",
	"Waiting.reason = suspected":                    "from the death of a server until the delivery's next attempt",
	"try-subscription 503":                          "it reads nothing, so it fails only if the key has to be looked up",
	"try-subscription 503 unavailable":              "the same",
	"compare-archive 409":                           "while an archive without parts is compared",
	"compare-archive 409 what_if_running":           "the same",
	"Problem.code = what_if_running":                "the same",
	"Waiting.reason = endpoint_deleted":             "from the deletion of its endpoint until the delivery is cancelled",
	"Explanation.next = cancel":                     "the same as Waiting.reason = endpoint_deleted",
	"put-endpoint 202":                              "the same as update-endpoint 202",
	"update-endpoint 202":                           "another server does not confirm the change within two seconds",
	"delete-endpoint 202":                           "the same",
	"pause-endpoint 202":                            "the same",
	"disable-endpoint 202":                          "the same",
	"set-circuit 202":                               "the same",
	"rotate-secret 202":                             "the same",
	"revoke-secret 202":                             "the same",
	"cancel-delivery 202":                           "the same",
	"delete-account 202":                            "the same",
	"update-account 202":                            "the same",
}

// unseenOnSQLite are the states that only a database in a process of its own
// can cause.
var unseenOnSQLite = map[string]string{
	"* 503":                      "the store is in the process",
	"* 503 unavailable":          "the store is in the process",
	"Problem.code = unavailable": "the store is in the process",
}

// TestTheAnswersAreThoseOfTheDocument drives every operation of the document
// into every state that the document names, on each store that the server has,
// and holds each answer to the document: status, headers, media type and body.
func TestTheAnswersAreThoseOfTheDocument(t *testing.T) {
	t.Parallel()
	producers := newProducers(t)
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		c := newCaller(t, newServer(t))
		c.drive(producers)
		c.judgeCoverage(unseen, unseenOnSQLite)
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		url, stop := newDatabase(t)
		c := newCaller(t, newServer(t, "--database-url="+url))
		c.drive(producers)
		stop()
		c.driveUnavailable()
		c.judgeCoverage(unseen)
	})
}

func newCaller(t *testing.T, s *server) *caller {
	t.Helper()
	return &caller{
		T: t, server: s, document: readDocument(t), ledger: &ledger{seen: map[string]bool{}}, receiver: newReceiver(t),
	}
}

// drive drives the server through all that a client can cause.
func (c *caller) drive(p *producers) {
	c.Helper()
	c.want(201, "POST /accounts", object{"uid": "acme", "name": "Acme Inc."})
	slow := c.startSlow()
	c.driveAccounts()
	c.driveExpunges()
	c.driveArchive()
	c.driveQuotas()
	c.driveKeys()
	c.driveDestinations()
	c.driveSources()
	c.driveRows(p)
	c.driveTable(p)
	c.driveAccess()
	c.driveEventTypes()
	c.driveSearch()
	c.drivePublishing()
	c.driveOptions()
	c.driveSecrets()
	c.driveDeliveries()
	c.driveDeadLetters()
	c.driveManyReplays()
	c.want(200, "GET /troubled-endpoints", nil)
	c.driveCircuits()
	c.want(200, "GET /troubled-endpoints", nil)
	c.drivePace()
	c.driveOrder()
	c.driveStatuses()
	c.driveNotices()
	c.want(200, "GET /troubled-endpoints", nil)
	c.driveProblems()
	c.driveRestart()
	c.finishSlow(slow)
}

// judgeCoverage fails for every state of the document that was not seen and has
// no reason, and for every reason that is none.
func (c *caller) judgeCoverage(reasons ...map[string]string) {
	c.Helper()
	wanted := c.document.wanted()
	needed := map[string]bool{}
	for _, state := range slices.Sorted(maps.Keys(wanted)) {
		if c.ledger.has(state) {
			continue
		}
		excused := false
		for _, why := range reasons {
			for pattern := range why {
				if covers(pattern, state) {
					needed[pattern], excused = true, true
				}
			}
		}
		excused = excused || fleeting[state] != ""
		if !excused {
			c.Errorf("never seen: %s", state)
		}
	}
	for _, why := range reasons {
		for pattern := range why {
			if !needed[pattern] {
				c.Errorf("%q is excused, but there is no such state, or it was seen", pattern)
			}
		}
	}
	c.Logf("%d states of %d operations, %d excused", len(wanted), len(c.document.ops), len(needed))
}

func covers(pattern, state string) bool {
	if prefix, ok := strings.CutSuffix(pattern, "*"); ok {
		return strings.HasPrefix(state, prefix)
	}
	if suffix, ok := strings.CutPrefix(pattern, "*"); ok {
		return strings.HasSuffix(state, suffix)
	}
	return pattern == state
}

// restart ends the server and starts it with more settings.
func (c *caller) restart(by syscall.Signal, more ...string) {
	c.Helper()
	c.server.end(by)
	c.server.start(c.T, more...)
}
