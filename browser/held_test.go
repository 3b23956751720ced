package browser_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestARestoredServerSaysThatItIsHeld restores the backup of a server with a delivery that
// waits. The dashboard of the new server says that nothing is sent and how to go on, and the
// page of the delivery that this is why it waits. A person resumes, and both say so.
func TestARestoredServerSaysThatItIsHeld(t *testing.T) {
	t.Parallel()
	old, receiver := newServer(t), newReceiver(t)
	receiver.tell("/hooks", saying(503, "down"))
	old.call(t, "POST /accounts", object{"uid": "acme", "name": "Acme Corporation"})
	old.call(t, "POST /endpoints", object{
		"account": "acme", "url": receiver.url + "/hooks", "event_types": []string{"*"},
		"retry": object{"delays_ms": []int{0, 3_600_000}, "jitter": "none"},
	})
	_, delivery := old.publish(t, "acme", "order.created", nil)
	eventually(t, func() string {
		if got := old.call(t, "GET /deliveries/"+delivery, nil); got.body["attempts"] != 1.0 {
			return "the first attempt has not failed"
		}
		return ""
	})
	file, folder := filepath.Join(t.TempDir(), "backup.db"), t.TempDir()
	old.command(t, "backup", "--data-dir", old.folder, "--to", file)
	keys, err := os.ReadFile(filepath.Join(old.folder, "secrets.key"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "secrets.key"), keys, 0o600); err != nil {
		t.Fatal(err)
	}
	old.command(t, "restore", "--data-dir", folder, "--from", file)

	w := &world{server: startServer(t, folder)}
	w.key = old.key // the backup has it
	tb := w.logIn(t, newVisitor(t, w.url))
	tb.open("/dashboard")
	tb.sees("Held after a restore: nothing is sent", "One pending delivery", "postrider resume --after-restore")
	if serious, _ := tb.barriers(); len(serious) > 0 {
		t.Errorf("axe-core finds %v", serious)
	}
	tb.open("/dashboard/event-types")
	tb.sees("Held after a restore: nothing is sent", "postrider resume --after-restore")
	w.enter(t, "acme", customer)
	theirs := w.visitors[customer].newTab(t)
	for _, path := range []string{"/portal", "/portal/deliveries", "/portal/endpoints/new"} {
		theirs.open(path)
		theirs.sees("Deliveries wait.", "nothing is sent until its operator resumes sending")
	}
	if serious, _ := theirs.barriers(); len(serious) > 0 {
		t.Errorf("in the portal axe-core finds %v", serious)
	}
	tb.open("/dashboard/deliveries/" + delivery)
	tb.sees("was restored from a backup, and sends nothing", "postrider resume --after-restore")
	tb.open("/dashboard/deliveries")
	tb.sees("server is held after a restore")

	w.command(t, "resume", "--after-restore", "--yes")
	eventually(t, func() string { // the overview keeps its numbers for a second
		tb.open("/dashboard")
		tb.find("heading", "Overview")
		if strings.Contains(tb.text(), "Held after a restore") {
			return "the overview still says that the store is held"
		}
		return ""
	})
	theirs.open("/portal/deliveries")
	theirs.seesNo("Deliveries wait.")
	tb.open("/dashboard/deliveries/" + delivery)
	tb.sees("Attempt 1 failed", "Attempt 2 follows at")
}
