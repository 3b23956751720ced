package snippets_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/postrider/postrider/internal/snippets"
	"github.com/postrider/postrider/signature"
)

func base64Of(b []byte) string { return base64.StdEncoding.EncodeToString(b) }

// program says how the snippets of a language are run. All snippets are in one program, which is
// built once.
type program struct {
	language string
	driver   string // in testdata
	place    string // file of the snippet; * is the variant's name
	// wrap makes many snippets fit into one program. Nil: they are unchanged.
	wrap   func(name, code string) string
	finish func(names []string) (file string) // text that precedes the driver; nil: none
	as     string                             // name of the driver in the folder; empty: as in testdata
	build  [][]string
	run    []string
	alone  bool // each snippet needs a process, because their functions have the same name
}

func programs() []program {
	return []program{
		{language: "javascript", driver: "driver.mjs", place: "*.mjs", run: []string{"node", "driver.mjs"}},
		{language: "python", driver: "driver.py", place: "*.py", run: []string{"python3", "driver.py"}},
		{language: "ruby", driver: "driver.rb", place: "*.rb", run: []string{"ruby", "driver.rb"}},
		{language: "php", driver: "driver.php", place: "*.php", run: []string{"php", "driver.php"}, alone: true},
		{
			language: "go", driver: "driver.go.txt", place: "*/verify.go", as: "driver.go", finish: goTable,
			build: [][]string{{"go", "mod", "init", "snippets"}, {"go", "vet", "./..."}, {"go", "build", "-o", "run", "."}},
			run:   []string{"./run"},
		},
		{
			language: "java", driver: "Driver.java", place: "*/Webhooks.java",
			wrap: func(name, code string) string { return "package " + name + ";\n" + code },
			build: [][]string{{
				"javac", "-encoding", "UTF-8", "-Xlint:all", "-Werror", "-d", "out", "-sourcepath", ".", "Driver.java",
				"*/Webhooks.java",
			}},
			run: []string{"java", "-XX:TieredStopAtLevel=1", "-cp", "out", "Driver"},
		},
		{
			language: "csharp", driver: "Driver.cs", place: "*.cs",
			wrap:  func(name, code string) string { return "namespace " + name + " {\n" + code + "}\n" },
			build: [][]string{{"mcs", "-warnaserror", "-out:run.exe", "*.cs"}},
			run:   []string{"mono", "run.exe"},
		},
		{
			language: "rust", driver: "driver.rs", place: "*.rs", as: "main.rs", finish: rustTable,
			build: [][]string{{"cargo", "build", "--locked", "--quiet"}},
			run:   []string{"target/debug/snippets"},
		},
	}
}

// goTable returns another file of the driver's package, with a table of the snippets.
func goTable(names []string) string {
	imports, rows := "", ""
	for _, name := range names {
		imports += fmt.Sprintf("\t%s %q\n", name, "snippets/"+name)
		rows += fmt.Sprintf("\t%q: %s.Verify,\n", name, name)
	}
	return "package main\n\nimport (\n\t\"net/http\"\n" + imports +
		")\n\nvar snippets = map[string]func(http.Header, []byte, ...string) bool{\n" + rows + "}\n"
}

func rustTable(names []string) string {
	modules, rows := "", ""
	for _, name := range names {
		modules += "mod " + name + ";\n"
		rows += fmt.Sprintf("        %q => %s::verify(header, body, secrets),\n", name, name)
	}
	return "#![deny(warnings)]\n" + modules +
		"\nfn run(name: &str, header: impl Fn(&str) -> Option<String>, body: &[u8], secrets: &[&str]) -> bool {\n    match name {\n" +
		rows + "        _ => panic!(),\n    }\n}\n\n"
}

// TestEverySnippetVerifies runs the snippets of each language with its own compiler or interpreter,
// on requests that package signature signed. If the tools of a language are missing, the test
// fails; `make setup` installs them.
func TestEverySnippetVerifies(t *testing.T) {
	t.Parallel()
	all := programs()
	for _, language := range snippets.Languages() {
		i := slices.IndexFunc(all, func(p program) bool { return p.language == language.Name })
		if i < 0 {
			t.Errorf("nothing runs the snippets in %s", language.Title)
			continue
		}
		t.Run(language.Name, func(t *testing.T) {
			t.Parallel()
			all[i].test(t)
		})
	}
}

func (p program) test(t *testing.T) {
	folder := t.TempDir()
	var names []string
	var lines []string
	var cases []request
	for _, v := range variants() {
		code, err := snippets.Write(p.language, v.use)
		if errors.Is(err, snippets.ErrNone) && p.language == "csharp" && v.use.PublicKey {
			continue // the class library of C# has no ed25519
		}
		if err != nil {
			t.Fatalf("write %s: %v", v.name, err)
		}
		if p.wrap != nil {
			code = p.wrap(v.name, code)
		}
		put(t, folder, strings.ReplaceAll(p.place, "*", v.name), code)
		names = append(names, v.name)
		for _, r := range requests(t, v) {
			r.what = v.name + ": " + r.what
			cases, lines = append(cases, r), append(lines, r.line(v.name))
		}
	}
	p.prepare(t, folder, names)
	answers := p.answers(t, folder, names, lines)
	if len(answers) != len(cases) {
		t.Fatalf("%d answers to %d cases", len(answers), len(cases))
	}
	for i, r := range cases {
		if want := fmt.Sprint(r.genuine); answers[i] != want {
			t.Errorf("%s: %s, want %s; headers %q", r.what, answers[i], want, r.header)
		}
	}
}

// prepare writes the driver into the folder of the snippets and builds the program.
func (p program) prepare(t *testing.T, folder string, names []string) {
	t.Helper()
	driver := read(t, p.driver)
	switch {
	case p.language == "go":
		put(t, folder, "table.go", p.finish(names))
	case p.finish != nil:
		driver = p.finish(names) + driver
	}
	as := p.as
	if as == "" {
		as = p.driver
	}
	put(t, folder, as, driver)
	if p.language == "rust" {
		put(t, folder, "Cargo.toml", read(t, "Cargo.toml"))
		put(t, folder, "Cargo.lock", read(t, "Cargo.lock"))
	}
	for _, command := range p.build {
		execute(t, folder, "", command)
	}
}

// answers returns the output lines of the driver, one for each case.
func (p program) answers(t *testing.T, folder string, names, lines []string) []string {
	t.Helper()
	if !p.alone {
		return strings.Split(strings.TrimSpace(execute(t, folder, strings.Join(lines, "\n")+"\n", p.run)), "\n")
	}
	var all []string
	for _, name := range names {
		input := ""
		for _, line := range lines {
			if strings.HasPrefix(line, name+"\t") {
				input += line + "\n"
			}
		}
		all = append(all, strings.Split(strings.TrimSpace(execute(t, folder, input, p.run)), "\n")...)
	}
	return all
}

// execute runs a command in the folder and returns its output. An argument with a * is replaced by
// the matching files.
func execute(t *testing.T, folder, input string, command []string) string {
	t.Helper()
	var arguments []string
	for _, argument := range command[1:] {
		if !strings.Contains(argument, "*") {
			arguments = append(arguments, argument)
			continue
		}
		found, err := filepath.Glob(filepath.Join(folder, argument))
		if err != nil {
			t.Fatal(err)
		}
		arguments = append(arguments, found...)
	}
	tool := command[0]
	if strings.Contains(tool, "/") {
		tool = filepath.Join(folder, tool)
	}
	run := exec.CommandContext(t.Context(), tool, arguments...)
	run.Dir, run.Stdin = folder, strings.NewReader(input)
	run.Env = append(os.Environ(), "GOFLAGS=-trimpath", "GOWORK=off")
	output, err := run.CombinedOutput()
	if err != nil {
		t.Fatalf("run %s: %v; `make setup` installs what is missing\n%s", command, err, output)
	}
	return string(output)
}

func put(t *testing.T, folder, name, text string) {
	t.Helper()
	file := filepath.Join(folder, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestCasesAgreeWithPackageSignature checks the cases above with package signature itself.
func TestCasesAgreeWithPackageSignature(t *testing.T) {
	t.Parallel()
	for _, v := range variants() {
		for _, r := range requests(t, v) {
			verifier := signature.Verifier{Format: v.use.Format}
			for _, text := range r.secrets {
				secret, err := signature.ParseSecret(text)
				if err != nil {
					secret, err = signature.TextSecret(text)
				}
				if err == nil {
					verifier.Keys = append(verifier.Keys, signature.Key{Secret: secret})
				}
			}
			if err := verifier.Verify(r.header, r.body, newSender(t, v).now); (err == nil) != r.genuine {
				t.Errorf("%s: %s: %v", v.name, r.what, err)
			}
		}
	}
}

func TestWriteRefusesWhatItHasNoSnippetFor(t *testing.T) {
	t.Parallel()
	for name, wrong := range map[string]struct {
		language string
		use      snippets.Use
	}{
		"no such language":                 {"cobol", snippets.Use{}},
		"no such scheme":                   {"go", snippets.Use{Format: signature.Format{Scheme: "morse"}}},
		"a scheme that has no public keys": {"go", snippets.Use{Format: signature.Format{Scheme: signature.Stripe}, PublicKey: true}},
		"a language without ed25519":       {"csharp", snippets.Use{PublicKey: true}},
	} {
		if text, err := snippets.Write(wrong.language, wrong.use); !errors.Is(err, snippets.ErrNone) {
			t.Errorf("%s: %q, %v", name, text, err)
		}
	}
}
