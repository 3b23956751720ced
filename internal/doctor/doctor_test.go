package doctor_test

import (
	"context"
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/postrider/postrider/internal/doctor"
)

// names returns the names of the checks in the source.
func names(t *testing.T) (list []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "names.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if literal, ok := n.(*ast.BasicLit); ok && literal.Kind == token.STRING {
			name, err := strconv.Unquote(literal.Value)
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, name)
		}
		return true
	})
	return list
}

func TestTheHandbookExplainsEveryCheck(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/operate/doctor.md")
	if err != nil {
		t.Fatal(err)
	}
	var explained []string
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z_.]+)` \\| .{20,} \\| .{10,} \\|$").FindAllStringSubmatch(string(page), -1) {
		explained = append(explained, row[1])
	}
	if diff := cmp.Diff(names(t), explained); diff != "" {
		t.Errorf("docs/operate/doctor.md has not one row for each check, in their order (-code +page):\n%s", diff)
	}
}

func TestAReportCountsAndHasOneLineForEachFinding(t *testing.T) {
	t.Parallel()
	r := doctor.NewReport("v1", []doctor.Check{
		doctor.Okay(doctor.DNS, "%d %%", 5),
		doctor.Warning(doctor.Memory, "small").Change("buy %s", "more"),
		doctor.Failure(doctor.Connect, "FATAL:\n  refused"),
	})
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"version":"v1","checks":[` +
		`{"name":"network.dns","status":"ok","found":"5 %"},` +
		`{"name":"machine.memory","status":"warn","found":"small","remedy":"buy more"},` +
		`{"name":"database.connect","status":"fail","found":"FATAL: refused"}],"ok":1,"warn":1,"fail":1}`
	if diff := cmp.Diff(want, string(text)); diff != "" {
		t.Errorf("the report (-want +got):\n%s", diff)
	}
}

// TestRunEndsInTimeWhateverAProbeDoes has a probe that ends with its context, one that ends late,
// and one in a system call that never returns. Run must return in time, with the checks in the
// order of the probes.
func TestRunEndsInTimeWhateverAProbeDoes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		never := make(chan struct{})
		hears := func(after time.Duration) func(context.Context) []doctor.Check {
			return func(ctx context.Context) []doctor.Check {
				<-ctx.Done()
				time.Sleep(after)
				return []doctor.Check{doctor.Failure(doctor.DNS, "gave up")}
			}
		}
		begun := time.Now()
		checks := doctor.Run(t.Context(), 10*time.Second, []doctor.Probe{
			{Name: doctor.Folder, Look: func(context.Context) []doctor.Check {
				<-never
				return nil
			}},
			{Name: doctor.DNS, Look: hears(100 * time.Millisecond)},
			{Name: doctor.Connect, Look: hears(time.Minute)},
			{Name: doctor.Memory, Look: func(context.Context) []doctor.Check { return []doctor.Check{doctor.Okay(doctor.Memory, "much")} }},
		})
		if took := time.Since(begun); took != 10*time.Second+500*time.Millisecond {
			t.Errorf("Run took %s", took)
		}
		var got []string
		for _, c := range checks {
			got = append(got, string(c.Name)+" "+string(c.Status)+": "+c.Found)
		}
		want := []string{
			"sqlite.folder fail: the check did not end within 10s", "network.dns fail: gave up",
			"database.connect fail: the check did not end within 10s", "machine.memory ok: much",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("Run (-want +got):\n%s", diff)
		}
		close(never)
		time.Sleep(time.Minute) // all goroutines of a bubble must end
	})
}

func TestRunWaitsForNobodyWhenAllAreDone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		slow := func(context.Context) []doctor.Check {
			time.Sleep(time.Second)
			return nil
		}
		doctor.Run(t.Context(), time.Minute, []doctor.Probe{{Look: slow}, {Look: slow}})
		if took := time.Since(begun); took != time.Second {
			t.Errorf("Run took %s, want that of one probe", took)
		}
	})
}

// judged is the check that a test expects. found and remedy are parts of the check's texts.
type judged struct {
	status        doctor.Status
	found, remedy string
}

// expect compares a check with the expected one. A check that is not ok must have a remedy.
func expect(t *testing.T, c doctor.Check, want judged) {
	t.Helper()
	if c.Status != want.status || !strings.Contains(c.Found, want.found) || !strings.Contains(c.Remedy, want.remedy) {
		t.Errorf("%s is %s: %q -> %q; want %s: %q -> %q", c.Name, c.Status, c.Found, c.Remedy, want.status, want.found, want.remedy)
	}
	if (c.Remedy == "") != (c.Status == doctor.OK) {
		t.Errorf("%s is %s, and its remedy is %q", c.Name, c.Status, c.Remedy)
	}
}

// pick returns the check with the name.
func pick(t *testing.T, checks []doctor.Check, name doctor.Name) doctor.Check {
	t.Helper()
	for _, c := range checks {
		if c.Name == name {
			return c
		}
	}
	t.Fatalf("there is no check %s", name)
	return doctor.Check{}
}
