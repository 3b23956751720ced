package postrider_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"slices"
	"strconv"
	"testing"
)

// A door is the function of package egress from which a library gets its connections. A function
// that calls one of the library's constructors must also name that door.
type door struct {
	library      string   // import path
	name         string   // name of the package, if it is not the last part of the path
	constructors []string // functions that connect, or that return something that connects
	from         string   // function of egress; "": the constructors must not be called
}

// houseDoors are the libraries that connect to servers that the operator's settings name. Package
// egress has one door for these servers and a guarded door for the URLs that customers set. So
// nobody bypasses the guard by accident, and one place decides how we connect. Traces are sent
// without such a library: for them, the rule that only egress dials is enough.
var houseDoors = []door{
	{"github.com/wneessen/go-mail", "mail", []string{"NewClient"}, "DialOperator"},
	{"net/smtp", "", []string{"Dial", "SendMail"}, ""},
	{"github.com/minio/minio-go/v7", "minio", []string{"New", "NewCore"}, "OperatorTransport"},
	{"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp", "", []string{"New", "NewClient", "NewUnstarted"}, ""},
	{"github.com/coreos/go-oidc/v3/oidc", "", []string{"NewProvider", "NewRemoteKeySet", "ClientContext"}, "OperatorClient"},
	{"golang.org/x/oauth2", "", []string{"NewClient"}, "OperatorClient"},
}

func TestHouseConnectsByEgress(t *testing.T) {
	t.Parallel()
	for _, f := range openHouse(t).files {
		if f.test || inside("bench")(f) {
			continue
		}
		for _, call := range besideTheDoor(f.File) {
			t.Errorf("%s: %s connects by itself: egress has the dialers for the operator's servers", f.at(call), f.path)
		}
	}
}

// TestHouseSeesWhoConnectsByItself shows that the rule finds a library that connects without its
// door.
func TestHouseSeesWhoConnectsByItself(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, imports, body string
		beside              int
	}{
		{"mail with the door", `"github.com/wneessen/go-mail"`, `mail.NewClient(host, mail.WithDialContextFunc(egress.DialOperator))`, 0},
		{"mail that dials", `"github.com/wneessen/go-mail"`, `mail.NewClient(host)`, 1},
		{"mail under another name", `post "github.com/wneessen/go-mail"`, `post.NewClient(host)`, 1},
		{
			"a bucket with the door", `"github.com/minio/minio-go/v7"`,
			`t := egress.OperatorTransport(); minio.New(host, &minio.Options{Transport: t})`, 0,
		},
		{"a bucket that dials", `"github.com/minio/minio-go/v7"`, `minio.New(host, &minio.Options{})`, 1},
		{"a bucket with the door of others", `"github.com/minio/minio-go/v7"`, `minio.New(host, &minio.Options{Transport: egress.New()})`, 1},
		{"a provider that dials", `"github.com/coreos/go-oidc/v3/oidc"`, `oidc.NewProvider(ctx, issuer)`, 1},
		{
			"an exporter, whatever it gets", `"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"`,
			`otlptracehttp.New(egress.OperatorTransport())`, 1,
		},
		{"the package of the library, and no call", `"net/smtp"`, `smtp.PlainAuth("", user, password, host)`, 0},
		{"another package of that name", `"example.com/smtp"`, `smtp.Dial(host)`, 0},
	} {
		source := "package p\nimport " + tt.imports + "\nfunc f() {" + tt.body + "}\nfunc g() { egress.DialOperator() }"
		file, err := parser.ParseFile(token.NewFileSet(), "p.go", source, parser.SkipObjectResolution)
		if err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		if got := len(besideTheDoor(file)); got != tt.beside {
			t.Errorf("%s: %d calls, want %d", tt.name, got, tt.beside)
		}
	}
}

// besideTheDoor returns the calls of constructors in declarations that do not name the door.
func besideTheDoor(file *ast.File) (calls []ast.Node) {
	for _, spec := range file.Imports {
		where, err := strconv.Unquote(spec.Path.Value)
		i := slices.IndexFunc(houseDoors, func(d door) bool { return d.library == where })
		if err != nil || i < 0 {
			continue
		}
		d, name := houseDoors[i], path.Base(where)
		if d.name != "" {
			name = d.name
		}
		if spec.Name != nil {
			name = spec.Name.Name
		}
		for _, declaration := range file.Decls {
			if d.from != "" && anySelects(declaration, "egress", d.from) {
				continue
			}
			ast.Inspect(declaration, func(n ast.Node) bool {
				if selects(n, name, d.constructors...) {
					calls = append(calls, n)
				}
				return true
			})
		}
	}
	return calls
}

// anySelects reports whether pkg.name occurs in n.
func anySelects(n ast.Node, pkg, name string) (found bool) {
	ast.Inspect(n, func(n ast.Node) bool {
		found = found || n != nil && selects(n, pkg, name)
		return !found
	})
	return found
}
