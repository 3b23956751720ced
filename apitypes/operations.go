package apitypes

import "github.com/postrider/postrider"

// Node is a server that shares the store.
type Node struct {
	ID        uint32 `json:"id" doc:"Number of this run of the server. Each start has another."`
	Host      string `json:"host" doc:"Name of its machine. Empty: the machine has none."`
	Status    string `json:"status" enum:"alive,leaving,dead" doc:"leaving: it ends and gives up its shards. dead: it has not sent a heartbeat in time, and another server reclaims what it had under way."`
	Shards    int    `json:"shards" doc:"Number of the 256 shards of the endpoints that it owns."`
	StartedAt *Time  `json:"started_at" format:"date-time" doc:"Null: the store is used by one process, which is this one."`
	SeenAt    Time   `json:"seen_at" format:"date-time" doc:"Time of its last heartbeat."`
}

// TroubledEndpoints says which endpoints need a person's attention.
type TroubledEndpoints struct {
	OpenCircuits int                `json:"open_circuits" maximum:"1000" doc:"Number of endpoints whose circuit is open or half open. A circuit whose cooldown has been over for five minutes does not count: nothing was due to probe it with. Counting stops at 1000 endpoints that fail."`
	Failing      int                `json:"failing" doc:"Number of endpoints that fail or were disabled for their failures. Counting stops at 1000 that fail, and at 250 that were disabled."`
	Waiting      int                `json:"waiting" doc:"Number of endpoints with the reason waiting. Counting stops at 1000."`
	DeadOnly     int                `json:"dead_letters_only" doc:"Number of endpoints with no other reason than dead_letters, among 250 groups of dead letters."`
	Data         []TroubledEndpoint `json:"data" nullable:"false" maxItems:"10" doc:"The endpoints that need a person, at most 10: those that fail or were disabled, the latest first, then those whose deliveries wait, the longest first, then those with dead letters, the most first."`
}

// TroubledEndpoint is an endpoint that needs a person's attention.
type TroubledEndpoint struct {
	Endpoint     postrider.EndpointID     `json:"endpoint"`
	Account      postrider.AccountID      `json:"account"`
	URL          string                   `json:"url"`
	Description  string                   `json:"description"`
	Status       postrider.EndpointStatus `json:"status" enum:"enabled,paused,disabled"`
	Reasons      []string                 `json:"reasons" nullable:"false" enum:"disabled,circuit_open,failing,waiting,dead_letters" doc:"disabled: it was disabled for its failures. circuit_open: nothing is sent but probes. failing: its attempts fail, and the circuit is closed. waiting: it is enabled and not failing, and a delivery has been due for five minutes. dead_letters: it has unresolved ones."`
	FailingSince *Time                    `json:"failing_since" format:"date-time" doc:"Time of the first failure of the current streak. Null: its last attempt did not fail."`
	Since        *Time                    `json:"since" format:"date-time" doc:"Time of that failure, or when the endpoint was disabled. Null: it has neither reason."`
	ProbeAt      *Time                    `json:"probe_at" format:"date-time" doc:"Time of the next probe, while the circuit is open."`
	LastFailure  *LastFailure             `json:"last_failure" doc:"The last request to the endpoint that was not accepted. Null: it does not fail, or none of its newest hundred attempts failed."`
	OldestDueMS  *int64                   `json:"oldest_due_ms" doc:"Time since its first waiting delivery is due. Null: it does not have the reason waiting."`
	DeadLetters  int                      `json:"dead_letters" doc:"Number of unresolved dead letters. Counting stops at 1000 of each cause, and after 250 causes of all endpoints."`
	DeadMore     bool                     `json:"dead_letters_more" doc:"True: counting stopped, so there may be more dead letters."`
}
