package signature_test

import (
	"fmt"
	"net/http"
	"time"

	"github.com/postrider/postrider/signature"
)

func Example() {
	secret, err := signature.ParseSecret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	if err != nil {
		panic(err)
	}
	verifier := signature.Verifier{Scheme: signature.Standard, Keys: []signature.Key{{Secret: secret}}}

	// What a request brought:
	header := http.Header{}
	header.Set("Webhook-Id", "msg_p5jXN8AQM9LWM0D4loKWxJek")
	header.Set("Webhook-Timestamp", "1614265330")
	header.Set("Webhook-Signature", "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=")
	body := []byte(`{"test": 2432232314}`)

	now := time.Unix(1614265330, 0) // time.Now(), but in examples
	fmt.Println(verifier.Verify(header, body, now))
	fmt.Println(verifier.Verify(header, body, now.Add(time.Hour)))
	fmt.Println(verifier.Verify(header, []byte(`{"test": 1}`), now))
	// Output:
	// <nil>
	// signature: timestamp outside tolerance
	// signature: mismatch
}

func ExampleSign() {
	secret, err := signature.ParseSecret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	if err != nil {
		panic(err)
	}
	header := http.Header{}
	message := signature.Message{
		ID:        "msg_p5jXN8AQM9LWM0D4loKWxJek",
		Timestamp: time.Unix(1614265330, 0),
		Body:      []byte(`{"test": 2432232314}`),
	}
	if err := signature.Sign(header, message, []signature.Key{{Secret: secret}}, signature.Standard); err != nil {
		panic(err)
	}
	fmt.Println(header.Get("Webhook-Signature"))
	// Output: v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=
}

// During a rotation the receiver knows both secrets, and the sender signs with
// both.
func ExampleVerifier_rotation() {
	before := signature.Key{ID: "sec_1", Secret: []byte("the secret that is going out of use")}
	after := signature.Key{ID: "sec_2", Secret: []byte("the secret that replaces the old one")}
	header := http.Header{}
	now := time.Unix(1760000000, 0)
	message := signature.Message{ID: "evt_1", Timestamp: now, Body: []byte(`{}`)}
	if err := signature.Sign(header, message, []signature.Key{after, before}, signature.Standard); err != nil {
		panic(err)
	}
	for _, key := range []signature.Key{before, after} {
		verifier := signature.Verifier{Scheme: signature.Standard, Keys: []signature.Key{key}}
		fmt.Println(key.ID, verifier.Verify(header, message.Body, now))
	}
	// Output:
	// sec_1 <nil>
	// sec_2 <nil>
}
