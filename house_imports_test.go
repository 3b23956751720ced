package postrider_test

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// featureImports are what every feature of the API may import: what all features share, and no
// other feature.
const featureImports = "~ ~/apitypes ~/internal/api/rest ~/internal/api/render ~/internal/store"

// houseImports lists what each package may import besides the standard library, and why. "~" is
// this module. A path includes the packages below it. The test fails for a package without a row,
// and for a row without a package.
var houseImports = []struct{ folder, allowed, why string }{
	{"", "", "the domain: everything imports it, so it imports nothing"},
	{"signature", "", "public: receivers need no more than the standard library"},
	{"apitypes", "~", "public: the JSON shapes of the REST API; no library, since client brings them into its users' programs"},
	{"client", "~ ~/apitypes", "public: the REST API, in the words of the domain"},
	{"receiver", "~/signature", "public: brings no driver into its users' programs"},
	{"receiver/example", "~/signature ~/receiver modernc.org/sqlite", "a program of a receiver's author: it chooses the driver"},
	{
		"cmd/postrider",
		"~ ~/apitypes ~/client ~/signature ~/internal/app ~/internal/backup ~/internal/config ~/internal/doctor ~/internal/drivers ~/internal/offline ~/internal/outbox ~/internal/secrets ~/internal/shape github.com/alecthomas/kong golang.org/x/sync", "reads the command line into the settings, and calls app, what works on a store without a server, or a server through client",
	},

	{"internal/app", "~ ~/apitypes ~/internal", "the only one that knows all the others"},
	{
		"internal/offline",
		"~ ~/apitypes ~/internal/api ~/internal/apikeys ~/internal/archive ~/internal/config ~/internal/drivers ~/internal/secrets ~/internal/store",
		"does to a store what its API would; so it shows and makes things as the API does",
	},
	{
		"internal/backup",
		"~ ~/internal/batch ~/internal/config ~/internal/drivers ~/internal/observe ~/internal/secrets ~/internal/store/postgres ~/internal/store/sqlite",
		"each database has backups of its own, so it knows both",
	},
	{
		"internal/doctor/facts",
		"~ ~/internal/archive ~/internal/config ~/internal/doctor ~/internal/drivers ~/internal/egress ~/internal/expunge ~/internal/identity " +
			"~/internal/messenger ~/internal/outbox ~/internal/secrets ~/internal/store/postgres ~/internal/store/sqlite ~/internal/traces",
		"asks each package that reaches out whether it can",
	},
	{
		"internal/drivers", "~/internal/archive ~/internal/config ~/internal/store ~/internal/store/postgres ~/internal/store/sqlite",
		"opens the store and the archive of the settings, so that nobody else knows which there are",
	},
	{
		"internal/health", "~ ~/internal/batch ~/internal/doctor ~/internal/observe ~/internal/store",
		"knows the store as interfaces of its own",
	},
	{
		"internal/config",
		"~ ~/internal/archive ~/internal/egress ~/internal/messenger ~/internal/secrets ~/internal/traces github.com/alecthomas/kong go.yaml.in/yaml/v3", "every setting: knows the packages that a command needs with no server, whose options it fills",
	},
	{"internal/config/configtest", "~/internal/config github.com/alecthomas/kong", "for tests"},
	{"internal/apikeys", "~ ~/internal/store ~/internal/cache", "who calls: knows no API, so that a second one can have the same keys"},
	{
		"internal/api", "~ ~/apitypes ~/internal/api ~/internal/apikeys ~/internal/observe ~/internal/store",
		"assembles the features, and is the only one that knows them all",
	},
	{
		"internal/api/rest",
		"~ ~/apitypes ~/internal/api/render ~/internal/apikeys ~/internal/cache ~/internal/store ~/internal/jsonx ~/internal/observe github.com/danielgtaylor/huma/v2 golang.org/x/time/rate", "what all routes share: knows no feature",
	},
	{"internal/api/render", "~ ~/apitypes", "values of the domain in the form of responses, and nothing of HTTP"},
	{
		"internal/api/accounts", featureImports,
		"accounts and quotas: a feature knows what features share, and no other feature; what it needs of one is an interface of its own",
	},
	{"internal/api/archives", featureImports, "a feature of the API"},
	{"internal/api/audit", featureImports, "a feature of the API"},
	{"internal/api/circuits", featureImports + " ~/internal/observe", "a feature of the API, with the hooks of circuits"},
	{"internal/api/deliveries", featureImports + " ~/internal/observe", "a feature of the API, with the hooks of what ended"},
	{
		"internal/api/endpoints", featureImports + " ~/internal/filter ~/internal/observe ~/internal/shape",
		"a feature of the API; shape carries a policy from one form into another; filter finds the faults of a filter",
	},
	{
		"internal/api/events",
		featureImports + " github.com/danielgtaylor/huma/v2 ~/internal/batch ~/internal/filter ~/internal/jsonx ~/internal/observe",
		"a feature of the API; huma describes the headers of a publish; filter explains; jsonx reads rows as strictly as bodies; batch lets a job wait",
	},
	{"internal/api/eventtypes", featureImports, "a feature of the API"},
	{"internal/api/expunges", featureImports, "a feature of the API"},
	{"internal/api/hold", featureImports, "a feature of the API"},
	{"internal/api/inspections", featureImports, "a feature of the API"},
	{"internal/api/keys", featureImports + " ~/internal/apikeys", "a feature of the API"},
	{"internal/api/notices", featureImports, "a feature of the API"},
	{"internal/api/operations", featureImports, "a feature of the API"},
	{"internal/api/portal", featureImports + " ~/internal/shape", "a feature of the API; shape knows the names of options"},
	{"internal/api/replays", featureImports, "a feature of the API"},
	{"internal/api/search", featureImports, "a feature of the API"},
	{"internal/api/secrets", featureImports + " ~/signature", "a feature of the API; signature makes keys"},
	{"internal/api/sessions", featureImports + " ~/internal/apikeys ~/internal/cache", "a feature of the API; looks up keys and sessions"},
	{"internal/api/sources", featureImports + " ~/internal/outbox", "a feature of the API; outbox is the database of a producer"},
	{"internal/api/stats", featureImports, "a feature of the API"},
	{"internal/web", "~/internal/web", "HTML out: a client of the API inside the process, which app passes to it; it knows no store"},
	{"internal/web/page", "~ ~/apitypes ~/client ~/internal/web/text", "what all pages share: it knows no feature"},
	{"internal/web/text", "~ ~/apitypes ~/client", "the languages: knows no page"},
	{"internal/web/payload", "", "shows JSON, of which it knows no more"},
	{"internal/web/traffic", "~/apitypes ~/client ~/internal/web/page", "figures and charts, for every page that shows stats"},
	{
		"internal/web/overview", "~ ~/apitypes ~/client ~/internal/web/page ~/internal/web/traffic",
		"features import what all pages share, and no feature: whoever adds a page finds one folder to copy",
	},
	{"internal/web/search", "~ ~/apitypes ~/client ~/internal/web/page", "a feature of the pages: imports no other"},
	{
		"internal/web/endpoints", "~ ~/apitypes ~/client ~/internal/web/page ~/internal/web/text ~/internal/web/traffic",
		"a feature of the pages: imports no other",
	},
	{
		"internal/web/options", "~ ~/apitypes ~/client ~/internal/web/page ~/internal/shape ~/internal/web/text",
		"what it says of an option's shape it reads from the type",
	},
	{
		"internal/web/start", "~ ~/apitypes ~/client ~/internal/web/page ~/signature ~/internal/snippets ~/internal/web/payload",
		"writes code for receivers",
	},
	{"internal/web/events", "~ ~/apitypes ~/client ~/internal/web/page ~/internal/web/payload", "a feature of the pages: imports no other"},
	{"internal/web/deliveries", "~ ~/apitypes ~/client ~/internal/web/page ~/internal/web/text", "a feature of the pages: imports no other"},
	{"internal/web/replays", "~ ~/apitypes ~/client ~/internal/web/page", "a feature of the pages: imports no other"},
	{"internal/web/accounts", "~ ~/apitypes ~/client ~/internal/web/page ~/internal/web/traffic", "a feature of the pages: imports no other"},
	{"internal/web/access", "~ ~/apitypes ~/client ~/internal/web/page", "a feature of the pages: imports no other"},
	{"internal/web/audit", "~ ~/apitypes ~/client ~/internal/web/page", "a feature of the pages: imports no other"},
	{"internal/web/notices", "~ ~/apitypes ~/client ~/internal/web/page", "a feature of the pages: imports no other"},
	{"internal/web/sources", "~ ~/apitypes ~/client ~/internal/web/page ~/internal/web/payload", "a feature of the pages: imports no other"},
	{"internal/web/archive", "~ ~/apitypes ~/client ~/internal/web/page ~/internal/web/payload", "a feature of the pages: imports no other"},
	{"internal/web/home", "~ ~/apitypes ~/client ~/internal/web/page", "a feature of the pages: imports no other"},
	{
		"internal/web/live", "~ ~/internal/observe ~/internal/web/page ~/internal/web/text golang.org/x/time/rate",
		"knows the attempts that people watch; rate gives streams their turns",
	},
	{"internal/observe", "~", "knows no library of metrics: hooks bring theirs"},
	{"internal/live", "~ ~/internal/batch ~/internal/observe", "observes; what other nodes send it, app passes in"},
	{
		"internal/routing", "~ ~/internal/store ~/internal/batch ~/internal/filter",
		"who wants what: used by ingest and dispatch, and knows neither",
	},
	{"internal/schedule", "~ ~/internal/store", "pure: a decision depends on its inputs alone"},
	{
		"internal/ingest", "~ ~/internal/store ~/internal/batch ~/internal/observe ~/internal/routing ~/internal/schedule",
		"admits through an interface of its own, which dispatch has",
	},
	{
		"internal/peers", "~ ~/internal/store ~/internal/batch ~/internal/schedule",
		"hands deliveries between nodes in the words of schedule; dispatch knows it as an interface of its own",
	},
	{
		"internal/dispatch", "~ ~/internal/store ~/internal/batch ~/internal/observe ~/internal/routing ~/internal/schedule",
		"sends through an interface of its own, which webhook has",
	},
	{
		"internal/webhook", "~ ~/signature ~/internal/store ~/internal/egress ~/internal/cache",
		"builds, signs and classifies requests; dispatch knows it as a Sender",
	},
	{
		"internal/inspect", "~ ~/signature ~/internal/store ~/internal/batch",
		"keeps requests instead of sending them; signs through an interface of its own, which webhook has",
	},
	{
		"internal/egress", "~ ~/internal/cache code.dny.dev/ssrf golang.org/x/net/idna golang.org/x/net/proxy",
		"the one door to the outside, so the one place that guards; it knows nothing of deliveries",
	},
	{"internal/snippets", "~/signature", "writes code for others: knows the schemes, and nothing of a server"},
	{
		"internal/identity", "~ ~/internal/egress github.com/coreos/go-oidc/v3 golang.org/x/oauth2",
		"the only one that talks to an identity provider; the pages get it as an interface of their own",
	},
	{
		"internal/messenger", "~ ~/internal/store ~/internal/batch ~/internal/observe ~/internal/egress github.com/wneessen/go-mail",
		"the only one that writes emails",
	},
	{
		"internal/outbox", "~ ~/apitypes ~/internal/egress github.com/jackc/pgx/v5",
		"the only one that talks to the PostgreSQL of a producer; it knows no store",
	},
	{"internal/cache", "", "a map with a bound, for every package"},
	{"internal/batch", "", "a queue between goroutines, a signal and a sleep, for every package"},
	{
		"internal/telemetry", "~ ~/internal/store ~/internal/batch ~/internal/observe github.com/prometheus/client_golang",
		"observes and serves what it counted; the only one that knows a library of metrics",
	},
	{
		"internal/traces", "~ ~/internal/batch ~/internal/egress ~/internal/observe go.opentelemetry.io/proto/otlp google.golang.org/protobuf",
		"observes, and sends what it recorded; the only one that knows the format of traces",
	},
	{
		"internal/rollup", "~ ~/internal/store ~/internal/batch ~/internal/observe",
		"sees settlements through observe, and works through one method of store.Rollups",
	},
	{"internal/janitor", "~ ~/internal/store ~/internal/batch ~/internal/observe", "works through roles of the store that it lists"},
	{"internal/quota", "~ ~/internal/store ~/internal/batch ~/internal/observe", "stands before ingest, which it knows as a Publisher"},
	{
		"internal/archive",
		"~ ~/internal/store ~/internal/batch ~/internal/egress github.com/klauspost/compress/zstd github.com/minio/minio-go/v7",
		"copies what is deleted; the janitor knows it as an interface of its own, and it the vault",
	},
	{
		"internal/expunge", "~ ~/internal/store ~/internal/batch ~/internal/observe",
		"works through store.Expunges, roles that end deliveries as the API does, and the archive as an interface of its own",
	},
	{
		"internal/notify", "~ ~/apitypes ~/internal/store ~/internal/batch ~/internal/observe",
		"publishes as a producer does, through an interface of its own, which ingest has; the data of its events has the shape of the API",
	},
	{
		"internal/sources", "~ ~/apitypes ~/internal/store ~/internal/batch ~/internal/observe ~/internal/outbox",
		"reads the outboxes of producers; converts and publishes rows through interfaces of its own, which the API and quota have",
	},
	{
		"internal/replay", "~ ~/internal/store ~/internal/batch ~/internal/observe golang.org/x/time/rate",
		"works through store.Replays; it knows the endpoints through an interface of its own, which routing has",
	},
	{"internal/doctor", "", "judges facts, and imports none of those who find them: they import it"},
	{
		"internal/secrets", "~ ~/internal/store ~/internal/doctor ~/internal/batch ~/internal/jsonx",
		"holds the encryption keys; a package that encrypts or decrypts is passed a vault",
	},
	{"internal/filter", "~", "pure: whether an event matches depends on the pattern and the event alone; everybody who asks gets the same answer"},
	{"internal/filter/condition", "~ cel.dev/cel-go", "the only one that knows CEL, so that patterns need no library"},
	{"internal/jsonx", "~ github.com/go-json-experiment/json", "the experiment may change, so it has one home"},

	{"internal/shape", "", "carries settings from one form into another, and knows none of them"},
	{
		"internal/store", "~ ~/internal/filter ~/internal/jsonx ~/internal/shape",
		"the contract: knows no implementation; reads the documents that are stored as strictly as requests, their filters too",
	},
	{
		"internal/store/storetest",
		"~ ~/internal/store ~/internal/store/memory ~/internal/store/sqlstore github.com/google/go-cmp pgregory.net/rapid",
		"the contract's tests; memory is the model that histories are compared with",
	},
	{"internal/store/memory", "~ ~/internal/store", "the model that the others are compared with"},
	{"internal/store/sqlstore", "~ ~/internal/store", "the verbs that are not hot, for every SQL database: knows no driver"},
	{
		"internal/store/postgres",
		"~ ~/internal/store ~/internal/store/sqlstore ~/internal/doctor github.com/jackc/pgx/v5 github.com/pressly/goose/v3",
		"the only one that talks to PostgreSQL",
	},
	{
		"internal/store/sqlite",
		"~ ~/internal/store ~/internal/store/sqlstore ~/internal/batch ~/internal/doctor modernc.org/sqlite github.com/pressly/goose/v3 golang.org/x/sys", "the only one that talks to SQLite",
	},
	{
		"internal/testkit",
		"~ ~/signature ~/internal/store github.com/emersion/go-sasl github.com/emersion/go-smtp go.uber.org/goleak golang.org/x/net/dns/dnsmessage golang.org/x/sys", "what tests and benchmarks start: of no use to the server",
	},
	{"internal/testkit/mailbox", "~/internal/testkit", "a program, because the modules that run it import nothing of this one"},
	{"internal/testkit/throwaway", "~/internal/testkit", "a program, because the modules that run it import nothing of this one"},

	{"release", "", "builds the releases: Go's own toolchain and library are all it needs"},

	{"bench/sink", "~/bench/internal", "a receiver of its own: shares no code with what it measures"},
	{"bench/load", "~/bench/internal", "a publisher of its own, for the same reason"},
	{
		"bench/run",
		"~ ~/bench/internal ~/apitypes ~/client ~/internal/secrets github.com/jackc/pgx/v5 go.opentelemetry.io/proto golang.org/x/sync " +
			"google.golang.org/protobuf",
		"starts the parts as processes and reads their numbers; as the producer of B21 it speaks to its database",
	},
	{"bench/crash", "~ ~/bench/internal ~/apitypes ~/client", "kills the server, and asks it only through its API"},
	{
		"bench/outbox", "~ ~/apitypes ~/bench/internal ~/client github.com/jackc/pgx/v5",
		"kills a server and a producer's database; it is the producer, so it speaks to its database",
	},
	{"bench/isolation", "~/apitypes ~/bench/internal ~/client", "measures a server from outside, through its API"},
	{
		"bench/pages", "~ ~/apitypes ~/bench/internal ~/client ~/internal/store",
		"reads the pages of a server from outside, as a browser does; store encodes the statistics that it seeds",
	},
	{
		"bench/publish", "~/internal/outbox ~/internal/testkit github.com/jackc/pgx/v5",
		"runs pgbench on a database with an outbox; no server takes part",
	},
	{"bench/month", "~ ~/apitypes ~/bench/internal ~/client", "makes the days of a month, and runs the server as its users do"},
	{
		"bench/hostile", "~ ~/internal/egress ~/internal/webhook ~/internal/store ~/internal/testkit",
		"sends through a real egress, to receivers in a process of its own",
	},
	{
		"bench/internal/lab", "~/apitypes ~/client ~/internal/testkit modernc.org/sqlite",
		"what run, crash and pages share: processes, a cluster, calls to the API, seeds",
	},

	{
		"compat", "github.com/google/go-github github.com/standard-webhooks github.com/stripe/stripe-go github.com/svix/svix-webhooks",
		"a module of its own: other people's verifiers, and not one line of ours",
	},
	{"outboxtest", "github.com/jackc/pgx/v5", "a module of its own: the outbox as its producers see it, and not one line of ours"},
	{"outboxtest/pgx", "github.com/jackc/pgx/v5", "a program of a producer's author, shown in docs/outbox"},
	{"outboxtest/database-sql", "github.com/jackc/pgx/v5", "a program of a producer's author, shown in docs/outbox"},
	{"oidctest", "github.com/zitadel/oidc/v3", "a module of its own: another's identity provider, and not one line of ours"},
	{
		"contract", "github.com/santhosh-tekuri/jsonschema github.com/jackc/pgx/v5",
		"a module of its own: the API as its clients see it, and not one line of ours",
	},
	{
		"deploy",
		"helm.sh/helm/v3 github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring k8s.io/api k8s.io/apimachinery sigs.k8s.io/yaml",
		"a module of its own: the libraries of helm and Kubernetes read the chart, and not one line of ours",
	},
	{
		"browser", "github.com/chromedp/chromedp github.com/chromedp/cdproto github.com/jackc/pgx/v5",
		"a module of its own: the pages as people see them, and not one line of ours",
	},
}

// testImports are what a test file may import in addition to what its package may import.
const testImports = "~ ~/apitypes ~/signature ~/internal/store ~/internal/store/memory ~/internal/store/storetest ~/internal/testkit " +
	"github.com/google/go-cmp pgregory.net/rapid go.uber.org/goleak github.com/rogpeppe/go-internal"

// moreTestImports are folders whose tests may import even more.
var moreTestImports = []struct{ folder, allowed, why string }{
	{"internal/store/postgres", "github.com/jackc/pgx/v5", "bends what is below the store"},
	{"internal/store/sqlite", "modernc.org/sqlite modernc.org/libc", "bends what is below the store, and counts its steps"},
	{
		"internal/filter/condition", "cel.dev/expr google.golang.org/protobuf",
		"reads the tests of the specification, which are messages of protocol buffers",
	},
	{"internal/outbox", "~/internal/jsonx", "compares the faults of the SQL with those of the API"},
	{"internal/live", "~/internal/store/postgres", "sends by the notifications of a real database"},
	{
		"internal/api", "~/internal/expunge ~/internal/archive ~/internal/outbox ~/internal/secrets ~/internal/replay ~/internal/routing github.com/jackc/pgx/v5",
		"asks real runners, reads a real archive, and has real producers",
	},
	{"internal/expunge", "~/internal/archive ~/internal/secrets", "removes from a real archive"},
	{"internal/notify", "~/internal/ingest ~/internal/routing ~/internal/schedule", "publishes through a real ingest"},
	{"internal/ingest", "~/internal/store/postgres ~/internal/store/sqlite", "fans out on every store"},
	{
		"internal/sources",
		"~/internal/ingest ~/internal/quota ~/internal/routing ~/internal/schedule ~/internal/store/postgres ~/internal/store/sqlite github.com/jackc/pgx/v5",
		"has real producers, publishes as production does, and restores a real store",
	},
	{"internal/inspect", "~/internal/webhook ~/internal/egress", "signs as production does"},
	{"internal/messenger", "~/internal/secrets github.com/emersion/go-smtp", "signs with a real vault, and says what a mail server refuses"},
	{
		"internal/archive",
		"~/internal/expunge ~/internal/janitor ~/internal/secrets ~/internal/store/postgres ~/internal/store/sqlite github.com/jackc/pgx/v5 github.com/johannesboyne/gofakes3", "lives through days with retention and expunges, encrypts as production does, to a server that speaks S3",
	},
	{
		"internal/app",
		"~/client github.com/alecthomas/kong github.com/emersion/go-smtp github.com/jackc/pgx/v5 github.com/johannesboyne/gofakes3 go.opentelemetry.io/proto/otlp golang.org/x/sync google.golang.org/protobuf", "calls the server that it runs, changes tables under it, reads the spans that it sends, and has doctor ask a mail server and one that speaks S3",
	},
	{
		"internal/doctor/facts",
		"github.com/alecthomas/kong github.com/emersion/go-smtp github.com/johannesboyne/gofakes3 go.opentelemetry.io/proto/otlp google.golang.org/protobuf",
		"reads settings as the program does, and asks servers of mail, buckets and traces",
	},
	{
		"internal/web", "~/client ~/internal/observe ~/internal/api ~/internal/live ~/internal/archive ~/internal/outbox ~/internal/secrets ~/internal/replay ~/internal/routing",
		"shows what a real API answers, a real hub hands out and a real archive has",
	},
	{"release", "~/client ~/internal/config go.yaml.in/yaml/v3", "uses what it has built, and reads the files in deploy"},
	{
		"internal/janitor", "~/internal/archive ~/internal/secrets ~/internal/store/postgres ~/internal/store/sqlite github.com/jackc/pgx/v5",
		"lives through a month on every store; the past days of PostgreSQL are made by hand",
	},
	{"receiver", "github.com/jackc/pgx/v5 modernc.org/sqlite", "holds its contract on both databases"},
	{"cmd/postrider", "~/internal", "runs the whole program as sessions"},
}

func TestHouseImports(t *testing.T) {
	t.Parallel()
	inProduction, inTests := map[string][]string{}, map[string][]string{}
	for _, row := range houseImports {
		inProduction[row.folder] = strings.Fields(row.allowed)
		inTests[row.folder] = append(strings.Fields(row.allowed), strings.Fields(testImports)...)
	}
	for _, row := range moreTestImports {
		inTests[row.folder] = append(inTests[row.folder], strings.Fields(row.allowed)...)
	}
	missing := maps.Clone(inProduction)
	for _, f := range openHouse(t).files {
		delete(missing, f.folder)
		if _, planned := inProduction[f.folder]; !planned {
			t.Errorf("%s: package %s is not in the plan of house_imports_test.go", f.path, f.folder)
			continue
		}
		allowed := inProduction[f.folder]
		if f.test {
			allowed = append(slices.Clone(inTests[f.folder]), "~/"+f.folder)
		}
		for _, spec := range f.Imports {
			if name := houseName(spec.Path.Value); !mayImport(allowed, name) {
				t.Errorf("%s: may not import %s: %s", f.at(spec), name, whyOf(f.folder))
			}
		}
	}
	for _, folder := range slices.Sorted(maps.Keys(missing)) {
		t.Errorf("package %q is in the plan, but not in the house", folder)
	}
}

// houseName returns an import path without its quotes, with ~ for this module.
func houseName(quoted string) string {
	name, err := strconv.Unquote(quoted)
	if err != nil {
		return quoted
	}
	const module = "github.com/postrider/postrider"
	if rest, ours := strings.CutPrefix(name, module); ours && (rest == "" || rest[0] == '/') {
		return "~" + rest
	}
	return name
}

// mayImport reports whether the package name is in the standard library or allowed. An allowed path
// includes all packages below it, except "~" and "~/internal/store".
func mayImport(allowed []string, name string) bool {
	first, _, _ := strings.Cut(name, "/")
	if first != "~" && !strings.Contains(first, ".") {
		return true
	}
	return slices.ContainsFunc(allowed, func(a string) bool {
		alone := a == "~" || a == "~/internal/store"
		return name == a || !alone && strings.HasPrefix(name, a+"/")
	})
}

func whyOf(folder string) string {
	for _, row := range houseImports {
		if row.folder == folder {
			return row.why
		}
	}
	return ""
}
