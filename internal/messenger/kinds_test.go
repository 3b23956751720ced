package messenger_test

import (
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/messenger"
	"github.com/postrider/postrider/internal/store"
)

// TestMessagesOfQuotasAndDisks lets an account use up two quotas, and the disk fill up. The owner
// must be told of the quotas, and the operator of both.
func TestMessagesOfQuotasAndDisks(t *testing.T) {
	t.Parallel()
	w, channel := newWorld(t), &recorder{}
	account := w.account("Zoë's Shop")
	w.put(postrider.Destination{Account: account, Address: "zoe@shop.example", Language: "de", ConfirmedAt: confirmed})
	w.put(postrider.Destination{Address: "ops@acme.example", Language: "en", ConfirmedAt: confirmed})
	w.later(time.Second)
	full, _ := postrider.DiskUse(.96).Notice("/var/lib/postrider", postrider.Notice{}, w.now())
	recovered, _ := postrider.DiskUse(.5).Notice(full.Object, full, w.now())
	notices := []postrider.Notice{
		(&postrider.QuotaError{Account: account, Quota: postrider.QuotaEvents, Limit: 50}).Notice(w.now()),
		(&postrider.QuotaError{Account: account, Quota: postrider.QuotaEndpoints, Limit: 3}).Notice(w.now()),
		full, recovered,
	}
	for i := range notices {
		notices[i].ID = store.NewID[postrider.NoticeID](w.ids)
	}
	if _, err := w.PutNotices(t.Context(), notices); err != nil {
		t.Fatal(err)
	}
	w.later(time.Hour)
	w.run(map[postrider.Channel]messenger.Channel{postrider.ChannelEmail: channel}, func() bool { return len(channel.all()) == 2 })

	for _, m := range channel.all() {
		want := []string{
			"Das Konto hat seine Grenze von 50 Ereignissen je Sekunde erreicht.",
			"Das Konto hat seine Grenze von 3 Endpunkten erreicht.",
		}
		if m.To.Account.IsZero() {
			want = []string{
				"Zoë's Shop: The account has used up its limit of 50 events a second.",
				"https://hooks.acme.example/dashboard/accounts/" + account.String(),
				"Zoë's Shop: The account has used up its limit of 3 endpoints.",
				"96.0 % of the disk with /var/lib/postrider is in use. Publishes are refused until there is room",
				"The disk with /var/lib/postrider has room again: 50.0 % is in use.",
			}
		}
		for _, text := range want {
			if !strings.Contains(strings.Join(strings.Fields(m.Text), " "), text) {
				t.Errorf("the message to %s lacks %q:\n%s", m.To.Address, text, m.Text)
			}
		}
		if !m.To.Account.IsZero() && strings.Contains(m.Text, "/var/lib") {
			t.Errorf("the owner is told of the disk:\n%s", m.Text)
		}
	}
}
