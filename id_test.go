package postrider_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/postrider/postrider"
)

// The valid test vectors of the TypeID specification 0.3, by their suffixes.
var typeIDs = map[string]string{
	"00000000000000000000000000": "00000000-0000-0000-0000-000000000000",
	"00000000000000000000000001": "00000000-0000-0000-0000-000000000001",
	"0000000000000000000000000a": "00000000-0000-0000-0000-00000000000a",
	"0000000000000000000000000g": "00000000-0000-0000-0000-000000000010",
	"00000000000000000000000010": "00000000-0000-0000-0000-000000000020",
	"7zzzzzzzzzzzzzzzzzzzzzzzzz": "ffffffff-ffff-ffff-ffff-ffffffffffff",
	"0123456789abcdefghjkmnpqrs": "0110c853-1d09-52d8-d73e-1194e95b5f19",
	"01h455vb4pex5vsknk084sn02q": "01890a5d-ac96-774b-bcce-b302099a8057",
}

func TestTypeIDVectors(t *testing.T) {
	t.Parallel()
	for suffix, uuid := range typeIDs {
		id, err := postrider.ParseID[postrider.EventID]("evt_" + suffix)
		if want := strings.ReplaceAll(uuid, "-", ""); err != nil || hex.EncodeToString(id[:]) != want {
			t.Errorf("ParseID(evt_%s) = %x, %v; want %s", suffix, id[:], err, want)
		}
		if got := id.String(); got != "evt_"+suffix {
			t.Errorf("String(%s) = %s, want evt_%s", uuid, got, suffix)
		}
		if text, err := id.MarshalText(); err != nil || string(text) != id.String() {
			t.Errorf("MarshalText(%s) = %s, %v; want %s", uuid, text, err, id)
		}
	}
}

func TestParseIDRefusesAnythingElse(t *testing.T) {
	t.Parallel()
	const form, prefix = "id must be evt_ and 26 characters of base32", "id must start with evt_"
	for _, tt := range []struct{ name, text, want string }{
		{"129 bits", "evt_8zzzzzzzzzzzzzzzzzzzzzzzzz", form},
		{"a first digit of z", "evt_zzzzzzzzzzzzzzzzzzzzzzzzzz", form},
		{"upper case", "evt_01H455VB4PEX5VSKNK084SN02Q", form},
		{"an i", "evt_0123456789abcdefghijkmnpqr", form},
		{"an l", "evt_01h455vb4pex5vsknk084sn02l", form},
		{"an o", "evt_o1h455vb4pex5vsknk084sn02q", form},
		{"a u", "evt_01h455vb4pex5vsknk084sn02u", form},
		{"a hyphen", "evt_01h455vb4pex5vsknk084sn02-", form},
		{"a letter outside ASCII", "evt_01h455vb4pex5vsknk084sn0é", form},
		{"too short", "evt_01h455vb4pex5vsknk084sn02", form},
		{"too long", "evt_01h455vb4pex5vsknk084sn02qq", form},
		{"no digits", "evt_", form},
		{"two underscores", "evt__1h455vb4pex5vsknk084sn02q", form},
		{"nothing", "", prefix},
		{"no prefix", "01h455vb4pex5vsknk084sn02q", prefix},
		{"an empty prefix", "_01h455vb4pex5vsknk084sn02q", prefix},
		{"an upper-case prefix", "EVT_01h455vb4pex5vsknk084sn02q", prefix},
		{"the prefix of another type", "dlv_01h455vb4pex5vsknk084sn02q", prefix},
		{"space around it", " evt_01h455vb4pex5vsknk084sn02q", prefix},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			id, err := postrider.ParseID[postrider.EventID](tt.text)
			if err == nil || err.Error() != tt.want || !errors.Is(err, postrider.ErrInvalid) {
				t.Errorf("ParseID(%q) = %v, want %q", tt.text, err, tt.want)
			}
			if !id.IsZero() {
				t.Errorf("ParseID(%q) left the id %s", tt.text, id)
			}
		})
	}
}

func TestUnmarshalTextLeavesTheIDAlone(t *testing.T) {
	t.Parallel()
	id := deliveryID(7)
	before := id
	if err := id.UnmarshalText([]byte("dlv_nonsense")); err == nil || id != before {
		t.Errorf("UnmarshalText = %v with id %s, want an error and %s", err, id, before)
	}
}

func TestEachNounHasItsPrefix(t *testing.T) {
	t.Parallel()
	for got, want := range map[string]string{
		postrider.AccountID{}.String():  "acc_",
		postrider.EventID{}.String():    "evt_",
		postrider.EndpointID{}.String(): "ep_",
		postrider.DeliveryID{}.String(): "dlv_",
		postrider.SecretID{}.String():   "sec_",
		postrider.KeyID{}.String():      "key_",
		postrider.ReplayID{}.String():   "rpl_",
		postrider.SessionID{}.String():  "ses_",
		postrider.AuditID{}.String():    "aud_",
	} {
		if got != want+strings.Repeat("0", 26) {
			t.Errorf("the zero id is %s, want %s000…", got, want)
		}
	}
}

func TestMakeIDIsUUIDv7(t *testing.T) {
	t.Parallel()
	// The example of RFC 9562, A.6.
	at := time.UnixMilli(0x017F22E279B0)
	id := postrider.MakeID[postrider.EventID](at, [10]byte{0xFC, 0xC3, 0xD8, 0xC4, 0xDC, 0x0C, 0x0C, 0x07, 0x39, 0x8F})
	if got, want := hex.EncodeToString(id[:]), "017f22e279b07cc398c4dc0c0c07398f"; got != want {
		t.Errorf("MakeID = %s, want %s", got, want)
	}
	if got := id.Time(); !got.Equal(at) || got.Location() != time.UTC {
		t.Errorf("Time = %v, want %v in UTC", got, at)
	}
	if got := postrider.MakeID[postrider.EventID](time.UnixMilli(-1), [10]byte{}).Time(); got.UnixMilli() != 0 {
		t.Errorf("Time of an id before 1970 = %v, want 1970", got)
	}
}

func TestTheIDOfADeliveryCarriesItsEvent(t *testing.T) {
	t.Parallel()
	event := postrider.MakeEventID(time.UnixMilli(0x017F22E279B0), 0xCC3, 0x11223344)
	if got, want := hex.EncodeToString(event[:]), "017f22e279b07cc38011223344000000"; got != want {
		t.Errorf("MakeEventID = %s, want %s", got, want)
	}
	test := postrider.TestEventID(event)
	for _, of := range []postrider.EventID{event, test} {
		least, greatest := postrider.DeliveryOf(of, 0), postrider.DeliveryOf(of, 1<<24-1)
		if !bytes.Equal(least[:], of[:]) || !strings.HasSuffix(hex.EncodeToString(greatest[:]), "ffffff") {
			t.Errorf("the deliveries of %x are %x to %x, want the range that begins with the event", of, least, greatest)
		}
		for _, id := range []postrider.DeliveryID{least, greatest, postrider.DeliveryOf(of, 77)} {
			if got := postrider.EventOf(id); got != of {
				t.Errorf("EventOf(%x) = %x, want %x", id, got, of)
			}
		}
	}
	if !postrider.IsTest(postrider.EventOf(postrider.DeliveryOf(test, 77))) {
		t.Error("the delivery of a test event does not show that it is one")
	}
}

func TestIDsOrderByTheirTime(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		millis := rapid.Int64Range(0, 1<<48-1)
		a, b := makeID(millis.Draw(t, "a")), makeID(millis.Draw(t, "b"))
		if got, want := a.Compare(b), a.Time().Compare(b.Time()); got != want {
			t.Errorf("Compare(%s, %s) = %d, want %d", a, b, got, want)
		}
		if got, want := a.Compare(b), strings.Compare(a.String(), b.String()); got != want {
			t.Errorf("Compare(%s, %s) = %d, but their texts compare as %d", a, b, got, want)
		}
	})
}

func makeID(millis int64) postrider.AccountID {
	return postrider.MakeID[postrider.AccountID](time.UnixMilli(millis), [10]byte{})
}

func FuzzID(f *testing.F) {
	for suffix := range typeIDs {
		f.Add("ep_" + suffix)
	}
	f.Add("")
	f.Add("ep_8zzzzzzzzzzzzzzzzzzzzzzzzz")
	f.Fuzz(func(t *testing.T, text string) {
		id, err := postrider.ParseID[postrider.EndpointID](text)
		if err != nil {
			if !id.IsZero() || len(postrider.Faults(err)) != 1 {
				t.Errorf("ParseID(%q) = %s, %v; want the zero id and one fault", text, id, err)
			}
			return
		}
		if id.String() != text {
			t.Errorf("ParseID(%q) is written as %s: two texts for one id", text, id)
		}
	})
}
