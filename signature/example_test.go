package signature_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/postrider/postrider/signature"
)

// mustParse is only for these examples. A real program reports what is wrong with its
// configuration.
func mustParse(text string) signature.Secret {
	secret, err := signature.ParseSecret(text)
	if err != nil {
		panic(err)
	}
	return secret
}

func Example() {
	secret := mustParse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	verifier := signature.Verifier{Keys: []signature.Key{{Secret: secret}}}

	// A request has arrived with this header and body:
	header := http.Header{}
	header.Set("Webhook-Id", "msg_p5jXN8AQM9LWM0D4loKWxJek")
	header.Set("Webhook-Timestamp", "1614265330")
	header.Set("Webhook-Signature", "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=")
	body := []byte(`{"test": 2432232314}`)

	now := time.Unix(1614265330, 0) // a fixed time, for the example; otherwise time.Now()
	fmt.Println(verifier.Verify(header, body, now))
	fmt.Println(verifier.Verify(header, body, now.Add(time.Hour)))
	fmt.Println(verifier.Verify(header, []byte(`{"test": 1}`), now))
	// Output:
	// <nil>
	// signature: timestamp outside tolerance
	// signature: mismatch
}

// A handler reads the body once, verifies its unchanged bytes, and only then parses it.
func ExampleVerifier_Verify_handler() {
	secret := mustParse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	verifier := signature.Verifier{Keys: []signature.Key{{ID: "sec_1", Secret: secret}}}

	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
		if err != nil {
			http.Error(w, "body too large", http.StatusRequestEntityTooLarge)
			return
		}
		if err := verifier.Verify(r.Header, body, time.Now()); err != nil {
			http.Error(w, err.Error(), http.StatusUnauthorized) // contains nothing of the secret
			return
		}
		fmt.Println("received", r.Header.Get("Webhook-Id"), string(body))
		w.WriteHeader(http.StatusNoContent)
	})

	// The sender does this:
	request := httptest.NewRequest(http.MethodPost, "/webhooks", strings.NewReader(`{"order": 42}`))
	message := signature.Message{ID: "evt_1", Timestamp: time.Now(), Body: []byte(`{"order": 42}`)}
	if err := signature.Sign(request.Header, message, verifier.Keys, signature.Format{}); err != nil {
		panic(err)
	}
	answer := httptest.NewRecorder()
	handler.ServeHTTP(answer, request)
	fmt.Println(answer.Code)

	forged := httptest.NewRequest(http.MethodPost, "/webhooks", strings.NewReader(`{"order": 43}`))
	forged.Header = request.Header
	answer = httptest.NewRecorder()
	handler.ServeHTTP(answer, forged)
	fmt.Print(answer.Code, " ", answer.Body)
	// Output:
	// received evt_1 {"order": 42}
	// 204
	// 401 signature: mismatch
}

// During a rotation the sender signs with both secrets. So a receiver may know either secret, and
// change at any time.
func ExampleVerifier_rotation() {
	before := signature.Key{ID: "sec_1", Secret: mustParse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")}
	after := signature.Key{ID: "sec_2", Secret: mustParse("whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD")}
	header := http.Header{}
	now := time.Unix(1760000000, 0)
	message := signature.Message{ID: "evt_1", Timestamp: now, Body: []byte(`{}`)}
	if err := signature.Sign(header, message, []signature.Key{after, before}, signature.Format{}); err != nil {
		panic(err)
	}
	for _, key := range []signature.Key{before, after} {
		verifier := signature.Verifier{Keys: []signature.Key{key}}
		fmt.Println(key.ID, verifier.Verify(header, message.Body, now))
	}
	// Output:
	// sec_1 <nil>
	// sec_2 <nil>
}

// With a key pair the receiver has no key that could sign: the sender publishes the key that
// verifies.
func ExampleVerifier_publicKey() {
	public := mustParse("whpk_1SiA4o9hyqTCpIqC5V9HUakiiaeACeqfZTInDBbOir4=")
	verifier := signature.Verifier{Keys: []signature.Key{{Secret: public}}}

	header := http.Header{}
	header.Set("Webhook-Id", "msg_p5jXN8AQM9LWM0D4loKWxJek")
	header.Set("Webhook-Timestamp", "1614265330")
	header.Set("Webhook-Signature",
		"v1a,hnO3f9T8Ytu9HwrXslvumlUpqtNVqkhqw/enGzPCXe5BdqzCInXqYXFymVJaA7AZdpXwVLPo3mNl8EM+m7TBAg==")
	fmt.Println(verifier.Verify(header, []byte(`{"test": 2432232314}`), time.Unix(1614265330, 0)))
	// Output: <nil>
}

func ExampleSign() {
	keys := []signature.Key{{Secret: mustParse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")}}
	header := http.Header{}
	message := signature.Message{
		ID:        "msg_p5jXN8AQM9LWM0D4loKWxJek",
		Timestamp: time.Unix(1614265330, 0),
		Body:      []byte(`{"test": 2432232314}`),
	}
	if err := signature.Sign(header, message, keys, signature.Format{Scheme: signature.Standard}); err != nil {
		panic(err)
	}
	fmt.Println(header.Get("Webhook-Signature"))
	// Output: v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=
}

// A platform that replaces another sender keeps its secrets, and signs in the old scheme and in the
// new one. So no receiver has to change on that day, and each can change later.
func ExampleSign_leavingAnotherSender() {
	brought, err := signature.TextSecret("the-secret-that-receivers-know")
	if err != nil {
		panic(err)
	}
	keys := []signature.Key{{ID: "sec_1", Secret: brought}}
	old := signature.Format{Scheme: signature.Plain, Header: "X-Acme-Signature", Prefix: "hmac-sha256="}
	header := http.Header{}
	now := time.Unix(1760000000, 0)
	message := signature.Message{ID: "evt_1", Timestamp: now, Body: []byte(`{}`)}
	if err := signature.Sign(header, message, keys, signature.Format{Scheme: signature.Standard}, old); err != nil {
		panic(err)
	}
	fmt.Println(header.Get("X-Acme-Signature"))
	fmt.Println(header.Get("Webhook-Signature"))
	for _, format := range []signature.Format{old, {Scheme: signature.Standard}} {
		verifier := signature.Verifier{Format: format, Keys: keys}
		fmt.Println(format.Scheme, verifier.Verify(header, message.Body, now))
	}
	// Output:
	// hmac-sha256=404638a8e704e8af9c29755f66aa7212e0b4ccbbfc63af1a2f5e6ed8e8e848f3
	// v1,37j3b5WNSDEDm9ApTyexyMk4yAYy9CtfpZSCeJPS82s=
	// plain <nil>
	// standard <nil>
}
