package facts_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/emersion/go-smtp"
	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/postrider/postrider/internal/doctor"
	"github.com/postrider/postrider/internal/testkit"
)

// TestDoctorGoesWithTheMailServer uses a mail server that accepts emails, and mail servers that
// fail at each step.
func TestDoctorGoesWithTheMailServer(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		server *testkit.MailServer
		scheme string
		change func(env map[string]string)
		want   doctor.Check
		remedy string
	}{
		{"STARTTLS", &testkit.MailServer{}, "smtp", nil, doctor.Okay("", "accepts emails from hooks@acme.example"), ""},
		{
			"TLS and LOGIN", &testkit.MailServer{Implicit: true, Mechanisms: []string{"LOGIN"}}, "smtps", nil,
			doctor.Okay("", "accepts emails from"), "",
		},
		{"no STARTTLS", &testkit.MailServer{Insecure: true}, "smtp", nil, doctor.Warning("", ": encrypt: "), "smtps://"},
		{
			"an authority that nobody trusts", &testkit.MailServer{}, "smtp", func(env map[string]string) { delete(env, "POSTRIDER_SMTP_CA_FILE") },
			doctor.Warning("", ": encrypt: "), "--smtp-ca-file",
		},
		{
			"another password", &testkit.MailServer{}, "smtp", func(env map[string]string) { env["POSTRIDER_SMTP_PASSWORD"] = "hush" },
			doctor.Warning("", ": login: "), "POSTRIDER_SMTP_PASSWORD",
		},
		{
			"a sender that is refused",
			&testkit.MailServer{RefuseFrom: &smtp.SMTPError{Code: 553, EnhancedCode: smtp.EnhancedCode{5, 7, 1}, Message: "not yours"}},
			"smtp", nil, doctor.Warning("", ": sender: 553 "), "--smtp-from",
		},
		{
			"nobody listens", &testkit.MailServer{}, "smtp",
			func(env map[string]string) { env["POSTRIDER_SMTP_URL"] = "smtp://postrider@127.0.0.1:1" }, doctor.Warning("", ": connect: "),
			"--smtp-url",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			server := tt.server.Start(t)
			authorities := filepath.Join(t.TempDir(), "ca.pem")
			if err := os.WriteFile(authorities, server.CA.PEM(), 0o600); err != nil {
				t.Fatal(err)
			}
			env := map[string]string{
				"POSTRIDER_SMTP_URL": tt.scheme + "://" + testkit.MailUser + "@" + server.Address, "POSTRIDER_SMTP_PASSWORD": testkit.MailPassword,
				"POSTRIDER_SMTP_CA_FILE": authorities, "POSTRIDER_SMTP_FROM": "Acme <hooks@acme.example>",
			}
			if tt.change != nil {
				tt.change(env)
			}
			checks := examined(t, env, "--data-dir", t.TempDir())
			wantCheck(t, checks, doctor.MailServer, tt.want)
			got := checks[doctor.MailServer]
			if !strings.Contains(got.Remedy, tt.remedy) || strings.Contains(got.Found+got.Remedy, testkit.MailPassword) {
				t.Errorf("the check is %+v, want that %q is to be changed", got, tt.remedy)
			}
			if n := len(server.Emails()); n != 0 {
				t.Errorf("%d emails were sent", n)
			}
		})
	}
}

func TestDoctorWritesToTheFolderOfTheArchive(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	other, err := os.MkdirTemp("/dev/shm", "postrider-doctor-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(other) })
	file := filepath.Join(data, "a file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	ask := func(folder string) map[doctor.Name]doctor.Check {
		return examined(t, nil, "--data-dir", filepath.Join(data, "not", "yet"), "--archive=file://"+folder)
	}
	checks := ask(other)
	wantCheck(t, checks, doctor.ArchiveAccess, doctor.Okay("", "can be written, read and listed"))
	if found := checks[doctor.ArchiveDisk].Found; !strings.Contains(found, "of the disk of "+other) {
		t.Errorf("the disk of the archive: %q", found)
	}
	if left, err := os.ReadDir(other); err != nil || len(left) != 0 {
		t.Errorf("the archive has %v, %v afterwards", left, err)
	}
	same := t.TempDir()
	wantCheck(t, ask(same), doctor.ArchiveDisk, doctor.Warning("", "are on one file system"))
	wantCheck(t, ask(file), doctor.ArchiveAccess, doctor.Failure("", "not a directory"))
	missing := ask(filepath.Join(same, "missing"))
	wantCheck(t, missing, doctor.ArchiveAccess, doctor.Failure("", "no such file"))
	if c := missing[doctor.ArchiveAccess]; !strings.Contains(c.Remedy, "mount") {
		t.Errorf("the check is %+v", c)
	}
	if _, there := missing[doctor.ArchiveDisk]; there {
		t.Error("the disk of a missing archive is judged")
	}
}

// secretFile returns a file with the secret of an access key.
func secretFile(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte("hush\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// deny refuses requests with a method, as S3 does.
func deny(method string) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method != method {
				next.ServeHTTP(w, r)
				return
			}
			w.WriteHeader(http.StatusForbidden)
			_, _ = w.Write([]byte(`<?xml version="1.0"?><Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>`))
		})
	}
}

// TestDoctorUsesTheBucketOfTheArchive uses an S3-compatible server that accepts requests, and one
// that refuses them.
func TestDoctorUsesTheBucketOfTheArchive(t *testing.T) {
	t.Parallel()
	ahead := time.Now().Add(time.Hour)
	for _, tt := range []struct {
		name, bucket string
		options      []gofakes3.Option
		front        func(http.Handler) http.Handler
		access       doctor.Check
		remedy       string
		clock        doctor.Check
	}{
		{"it works", "archive", nil, nil, doctor.Okay("", "can be written, read, listed and deleted"), "", doctor.Okay("", "agree")},
		{"no bucket", "nothing", nil, nil, doctor.Failure("", "NoSuchBucket"), "make the bucket", doctor.Okay("", "agree")},
		{
			"it may not write", "archive", nil, deny(http.MethodPut), doctor.Failure("", "write postrider-doctor-"), "s3:PutObject",
			doctor.Okay("", "agree"),
		},
		{
			"it may not delete", "archive", nil, deny(http.MethodDelete), doctor.Failure("", "delete postrider-doctor-"), "s3:DeleteObject",
			doctor.Okay("", "agree"),
		},
		{
			"another time", "archive",
			[]gofakes3.Option{gofakes3.WithTimeSource(gofakes3.FixedTimeSource(ahead))},
			func(next http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					w.Header().Set("Date", ahead.UTC().Format(http.TimeFormat))
					next.ServeHTTP(w, r)
				})
			},
			doctor.Failure("", "RequestTimeTooSkewed"), "NTP", doctor.Warning("", "differ by "),
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			backend := s3mem.New()
			if err := backend.CreateBucket("archive"); err != nil {
				t.Fatal(err)
			}
			handler := gofakes3.New(backend, tt.options...).Server()
			if tt.front != nil {
				handler = tt.front(handler)
			}
			server := httptest.NewServer(handler)
			t.Cleanup(server.Close)
			checks := examined(t, nil, "--data-dir", t.TempDir(), "--archive=s3://"+tt.bucket+"/production", "--archive-endpoint="+server.URL,
				"--archive-access-key=key", "--archive-secret-key-file="+secretFile(t))
			wantCheck(t, checks, doctor.ArchiveAccess, tt.access)
			wantCheck(t, checks, doctor.ArchiveClock, tt.clock)
			if c := checks[doctor.ArchiveAccess]; !strings.Contains(c.Remedy, tt.remedy) {
				t.Errorf("the check is %+v, want that %q is to be changed", c, tt.remedy)
			}
			objects, err := backend.ListBucket("archive", nil, gofakes3.ListBucketPage{})
			if left := tt.remedy == "s3:DeleteObject"; err != nil || (len(objects.Contents) > 0) != left {
				t.Errorf("the bucket has %d objects afterwards, %v", len(objects.Contents), err)
			}
		})
	}
}

// TestDoctorTriesTheProxyAndTheListOfExpunges checks the proxy, which every delivery needs, and the
// expunge list, which every expunge needs.
func TestDoctorTriesTheProxyAndTheListOfExpunges(t *testing.T) {
	t.Parallel()
	proxy := httptest.NewServer(http.NotFoundHandler())
	address := proxy.URL
	list := filepath.Join(t.TempDir(), "expunged.ndjson")
	checks := examined(t, map[string]string{"POSTRIDER_EGRESS_PROXY": address, "POSTRIDER_EXPUNGE_LIST": list}, "--data-dir", t.TempDir())
	wantCheck(t, checks, doctor.EgressProxy, doctor.Okay("", "accepts connections"))
	wantCheck(t, checks, doctor.ExpungeList, doctor.Okay("", "can be written"))
	if _, err := os.Stat(list); err == nil {
		t.Error("doctor made the list")
	}
	proxy.Close()
	checks = examined(t, map[string]string{"POSTRIDER_EGRESS_PROXY": address, "POSTRIDER_EXPUNGE_LIST": "/nonexistent/list"}, "--data-dir",
		t.TempDir())
	wantCheck(t, checks, doctor.EgressProxy, doctor.Failure("", "refused"))
	wantCheck(t, checks, doctor.ExpungeList, doctor.Failure("", "/nonexistent"))
}
