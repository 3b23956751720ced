package apitypes

import "github.com/postrider/postrider"

// Delivery is one event for one endpoint.
type Delivery struct {
	ID             postrider.DeliveryID  `json:"id"`
	Event          postrider.EventID     `json:"event"`
	Endpoint       postrider.EndpointID  `json:"endpoint"`
	Account        postrider.AccountID   `json:"account"`
	EventType      string                `json:"event_type"`
	Test           bool                  `json:"test" doc:"True: its event is a test, from POST /endpoints/{endpoint}/test."`
	Status         postrider.Status      `json:"status" enum:"pending,delivered,dead,cancelled,skipped" doc:"pending: it is attempted until it is accepted. dead: it is a dead letter. skipped: its endpoint was disabled when the event was published. Only pending changes."`
	Reason         *string               `json:"reason" enum:"exhausted,gone,client_error,aborted_by_receiver,expired,filter_failed,system,endpoint_disabled,backlog_full,endpoint_deleted,cancelled" doc:"Why the delivery is dead, cancelled or skipped. Null: it is none of these."`
	Attempts       int                   `json:"attempts"`
	NextAttemptAt  *Time                 `json:"next_attempt_at" format:"date-time" doc:"Time of the next attempt. Null: none is due, or its time is not known; see waiting."`
	Waiting        *Waiting              `json:"waiting" doc:"Why a pending delivery has not been sent yet. Null: it is not pending."`
	CreatedAt      Time                  `json:"created_at" format:"date-time"`
	FinishedAt     *Time                 `json:"finished_at" format:"date-time"`
	LastStatusCode *int                  `json:"last_status_code"`
	LastError      *string               `json:"last_error"`
	ReplayedFrom   *postrider.DeliveryID `json:"replayed_from" nullable:"true" doc:"Id of the delivery that this one replays. Null: it is no replay."`
	ReplayJob      *postrider.ReplayID   `json:"replay_job" nullable:"true" doc:"Id of the replay job that made it. Null: none did."`
	Explanation    *Explanation          `json:"explanation" doc:"Why the delivery is where it is, what happens next, and when. Null: lists do not explain."`
}

// Explanation says why a delivery is in its state, what happens next, and when. The keys are for
// programs with their own texts.
type Explanation struct {
	Text    string           `json:"text" doc:"The explanation in English, as one to three sentences."`
	Why     string           `json:"why" doc:"Key of the reason: the status, and after a dot its reason. pending.retry: an attempt failed, and the next one is scheduled."`
	Next    postrider.Next   `json:"next" enum:"attempt,probe,result,cancel,nothing" doc:"What happens by itself. attempt: the next attempt is made. probe: the endpoint is probed, and the attempt follows when it responds. result: the attempt ends that is under way. cancel: the delivery is cancelled soon. nothing: nothing."`
	At      *Time            `json:"at" format:"date-time" doc:"Time of what happens next. Null: not known, or nothing does."`
	Action  postrider.Action `json:"action" enum:"release,resume,enable,set_policy,rotate_secret,replay," doc:"What a person can do so that the event is delivered. release: the delivery. resume, enable, set_policy, rotate_secret: of the endpoint. replay: the delivery. Empty: nothing has to be done, or nothing helps."`
	Attempt int              `json:"attempt" doc:"Number of the next attempt, or of the last one if none follows. 0: there was none."`
	Note    *string          `json:"note" doc:"Reason that was given when the endpoint was paused or disabled."`
	Failure *LastFailure     `json:"last_failure" doc:"Why the circuit of its endpoint is open, for a delivery that waits for it: the last request to the endpoint that was not accepted. Null: the delivery does not wait for the circuit, or none is known."`
	Others  *int             `json:"others" doc:"Other pending deliveries of the endpoint, for a delivery that is due. At most 10000 are counted. Null: the delivery is not due, or there are none."`
}

// Waiting says why a pending delivery is not sent yet.
type Waiting struct {
	Reason   postrider.WaitReason  `json:"reason" enum:"in_flight,parked,endpoint_deleted,endpoint_disabled,endpoint_paused,policy_unreadable,no_secret,ordering,suspected,scheduled,circuit_open,asked_to_wait,due" doc:"in_flight: an attempt is under way or about to start. parked: a person has to release or cancel it. endpoint_deleted: it will be cancelled soon. endpoint_disabled, endpoint_paused: until the endpoint is enabled or resumed. policy_unreadable: until the policy of the endpoint can be read; see its policy_error. no_secret: the endpoint has no valid secret. ordering: another delivery of its ordering key goes first. suspected: servers died while sending it, so it is sent apart from others. scheduled: until its retry is due. circuit_open: until the next probe of the endpoint. asked_to_wait: until the time that the receiver asked for with Retry-After. due: it is sent as soon as the concurrency window and the rate of the endpoint allow."`
	Until    *Time                 `json:"until" format:"date-time" doc:"Time when the reason ends. Null: not known."`
	Delivery *postrider.DeliveryID `json:"delivery" nullable:"true" doc:"With ordering: the earlier delivery of the key, or the dead letter that pauses it; null for a replay that waits for a later delivery, which was sent before. Else null."`
}

// Attempt is one request that was made for a delivery, with its response.
type Attempt struct {
	Delivery      postrider.DeliveryID `json:"delivery"`
	Event         postrider.EventID    `json:"event"`
	Endpoint      postrider.EndpointID `json:"endpoint"`
	Attempt       int                  `json:"attempt" doc:"Number of the attempt, from 1."`
	Outcome       postrider.Outcome    `json:"outcome" enum:"accepted,rejected,gone,throttled,unreachable,timed_out,broken,blocked,lost,none" doc:"accepted: 2xx. gone: 410. throttled: the response asked for fewer requests. rejected: any other response. unreachable: no connection. timed_out: the timeout passed, and the receiver may have the request. broken: the connection was cut. blocked: the address is forbidden. lost: the server died, and it is unknown whether the request left. none: no request was made."`
	StatusCode    *int                 `json:"status_code" doc:"Status code of the response. Null: there was no response."`
	RetryAfterMS  *int64               `json:"retry_after_ms"`
	StartedAt     Time                 `json:"started_at" format:"date-time" doc:"Time when the attempt began. With the outcome lost it is the time when the loss was noticed: the request may have left long before. With none it is the time of the decision."`
	DurationMS    int64                `json:"duration_ms"`
	Timing        *Timing              `json:"timing" doc:"What the duration was spent on. Null: no request was begun, or the server does not know."`
	Error         *string              `json:"error"`
	FinalURL      *string              `json:"final_url" doc:"URL that the redirects led to, without its query. Null: no redirect was followed."`
	RequestHead   *string              `json:"request_head" doc:"Head of the request, with signatures and credentials masked. Only the list of the attempts of one delivery has heads and bodies. Null: nothing was sent, or the request was accepted with a response of at most 256 bytes."`
	ResponseHead  *string              `json:"response_head" doc:"Head of the response, with credentials masked. If the request was accepted with a response of at most 256 bytes, it has at most 512 bytes, and of the fields only those that are listed in docs/operate/endpoints.md. Null: there was none, or it is stored no longer."`
	ResponseBody  *string              `json:"response_body" doc:"At most the first 16 KiB of the response body. Null: there was none, or it is in response_body_base64."`
	ResponseBytes []byte               `json:"response_body_base64,omitempty" doc:"The response body in base64, if it is not UTF-8."`
	Stale         bool                 `json:"stale" doc:"The attempt ended after another server had taken the delivery over. It did not change the delivery."`
	StatusAfter   postrider.Status     `json:"status_after" doc:"Status of the delivery as this attempt left it. Of a stale attempt it is pending, since it changed nothing."`
	NextAttemptAt *Time                `json:"next_attempt_at" format:"date-time"`
}

// Timing says how the duration of an attempt was spent, in microseconds. A part that did not happen
// is 0. If the attempt failed during a part, that part has the time until the failure.
type Timing struct {
	Reused      bool  `json:"reused" doc:"The request was sent on a connection that was open already. Then dns_us, connect_us and tls_us are 0, unless a redirect led to another server."`
	DNSUS       int64 `json:"dns_us" doc:"Lookup of the host's name, in microseconds."`
	ConnectUS   int64 `json:"connect_us" doc:"TCP connection, of all addresses that were tried."`
	TLSUS       int64 `json:"tls_us" doc:"TLS handshake."`
	FirstByteUS int64 `json:"first_byte_us" doc:"From sending the request to the first byte of the response."`
	RestUS      int64 `json:"rest_us" doc:"The rest of the response, and what came before the connection, such as a token that was fetched."`
}

// AttemptRequest is the HTTP request of an attempt, with signatures and credentials
// masked.
type AttemptRequest struct {
	Delivery        postrider.DeliveryID `json:"delivery"`
	Attempt         int                  `json:"attempt"`
	Method          string               `json:"method"`
	URL             string               `json:"url" doc:"The URL without its query, for which ?... stands."`
	Headers         []RequestHeader      `json:"headers" nullable:"false"`
	Recorded        bool                 `json:"recorded" doc:"The headers were recorded when the request was sent. False: they are what the server sends with the present options of the endpoint. It records no headers of a request that was accepted with a response of at most 256 bytes."`
	EndpointChanged bool                 `json:"endpoint_changed" doc:"The endpoint has changed since the attempt. What is not recorded may have been sent in another form."`
	Body            *string              `json:"body" doc:"The body as it is signed, which is before it is compressed. Null: it is longer than 16 KiB, or its bytes are deleted."`
	BodyBytes       *int                 `json:"body_bytes" doc:"Length of the body. Null: its bytes are deleted."`
	BodySHA256      *string              `json:"body_sha256" doc:"SHA-256 of the body, in hexadecimal digits. Null: its bytes are deleted."`
	Signatures      []SignedContent      `json:"signatures" nullable:"false" doc:"What each scheme signs, to compare with what a receiver verifies."`
	Curl            string               `json:"curl" doc:"A curl command that makes the request. It has placeholders such as <Webhook-Signature> for what is masked, and reads a long body from body.json."`
}

// RequestHeader is one field of the header of a request.
type RequestHeader struct {
	Name   string `json:"name"`
	Value  string `json:"value" doc:"*** if it is masked."`
	Masked bool   `json:"masked" doc:"The value is a signature or a credential, and is not shown."`
}

// SignedContent says what a scheme signs in a request: the prefix, followed by the body.
type SignedContent struct {
	Scheme postrider.Scheme `json:"scheme" enum:"standard,stripe,github,github-sha1,shopify,slack,svix,timestamped,plain"`
	Header string           `json:"header" doc:"Name of the header that carries the signature."`
	Prefix string           `json:"prefix" doc:"Signed in front of the body. Empty: the body alone is signed."`
	Bytes  *int             `json:"bytes" doc:"Length of what is signed. Null: the bytes of the body are deleted."`
	SHA256 *string          `json:"sha256" doc:"SHA-256 of what is signed, in hexadecimal digits. It is no signature. Null: the bytes of the body are deleted."`
}

// DeadLetter is a delivery that is no longer attempted. A person replays or discards it.
type DeadLetter struct {
	Delivery       postrider.DeliveryID  `json:"delivery"`
	Event          postrider.EventID     `json:"event"`
	Endpoint       postrider.EndpointID  `json:"endpoint"`
	Account        postrider.AccountID   `json:"account"`
	EventType      string                `json:"event_type"`
	Test           bool                  `json:"test" doc:"True: its event is a test, from POST /endpoints/{endpoint}/test."`
	Reason         string                `json:"reason" enum:"exhausted,gone,client_error,aborted_by_receiver,expired,filter_failed,system" doc:"exhausted: the last attempt failed. gone: the response was 410. client_error: the response was another 4xx, and client_errors is dead_letter. expired: it was pending for longer than expiry_ms. filter_failed: the condition of the endpoint could not be evaluated for the event. system: the server could not attempt it."`
	Attempts       int                   `json:"attempts"`
	LastStatusCode *int                  `json:"last_status_code"`
	LastError      *string               `json:"last_error"`
	ReplayedFrom   *postrider.DeliveryID `json:"replayed_from" nullable:"true"`
	CreatedAt      Time                  `json:"created_at" format:"date-time" doc:"Time when the delivery was created. Lists are sorted by it, and from and to mean it."`
	DiedAt         Time                  `json:"died_at" format:"date-time"`
	ResolvedAt     *Time                 `json:"resolved_at" format:"date-time" doc:"Null: the dead letter is not resolved."`
	Resolution     *postrider.Resolution `json:"resolution" enum:"replayed,discarded"`
	ResolvedBy     *string               `json:"resolved_by" doc:"Name of the API key that resolved it."`
	Note           *string               `json:"note"`
	Replay         *postrider.DeliveryID `json:"replay" nullable:"true" doc:"Id of the delivery that replays the dead letter. Null: it was not replayed."`
}

// DeadLetterDiscard is a request to discard a dead letter.
type DeadLetterDiscard struct {
	Reason string `json:"reason,omitempty" doc:"Why the dead letter is discarded. It is kept as the note of the dead letter."`
}
