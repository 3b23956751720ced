package contract_test

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestGeneratedClientsWork generates clients of the document with two
// generators that share no code, compiles them, and lets each publish an event,
// list its dead letter and replay it.
func TestGeneratedClientsWork(t *testing.T) {
	t.Parallel()
	c := newCaller(t, newServer(t))
	c.want(201, "POST /accounts", object{"uid": "acme"})
	document, err := filepath.Abs(documentFile)
	if err != nil {
		t.Fatal(err)
	}
	for _, client := range []struct {
		name string
		use  func(t *testing.T, document string) *exec.Cmd // generates a client, and returns the program that uses it
	}{
		{"openapi-generator, Go", goClient},
		{"openapi-python-client, Python", pythonClient},
	} {
		t.Run(client.name, func(t *testing.T) {
			t.Parallel()
			c := &caller{T: t, server: c.server, document: c.document, ledger: c.ledger, receiver: c.receiver}
			language, _, _ := strings.Cut(t.Name()[len("TestGeneratedClientsWork/"):], ",")
			eventType := "used.by." + strings.ToLower(strings.ReplaceAll(language, "-", "_"))
			c.endpoint(eventType, "/status/500", once)
			program := client.use(t, document)
			program.Env = append(program.Environ(), "SERVER="+c.server.url, "KEY="+c.server.key, "TYPE="+eventType)
			t.Logf("the client says:\n%s", output(t, program))
			letters := c.want(200, "GET /dead-letters?account=acme&resolved=true&event_type="+eventType, nil).items()
			if len(letters) == 0 || letters[len(letters)-1]["resolution"] != "replayed" {
				t.Errorf("after the client replayed its dead letter: %v", letters)
			}
		})
	}
}

// The generator of the Go client, and the checksum of its jar.
const (
	generator       = "org.openapitools:openapi-generator-cli:7.14.0:jar"
	generatorSHA256 = "e03186835022ca02da4aa95e3967b6a3b6d44c2e5f7606e6d5c22466f519c757"
)

// goClient generates a client with openapi-generator and compiles it.
func goClient(t *testing.T, document string) *exec.Cmd {
	t.Helper()
	folder := t.TempDir()
	output(t, command(t, folder, "mvn", "--batch-mode", "--quiet", "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy",
		"-Dartifact="+generator, "-DoutputDirectory="+folder, "-Dmdep.stripVersion=true"))
	jar, err := os.ReadFile(filepath.Join(folder, "openapi-generator-cli.jar"))
	if err != nil {
		t.Fatal(err)
	}
	if sum := sha256.Sum256(jar); hex.EncodeToString(sum[:]) != generatorSHA256 {
		t.Fatalf("the generator's checksum is %x, want %s", sum, generatorSHA256)
	}
	client := filepath.Join(folder, "client")
	output(t, command(t, folder, "java", "-jar", "openapi-generator-cli.jar", "generate", "--input-spec", document,
		"--generator-name", "go", "--output", client, "--git-host", "example.com", "--git-user-id", "postrider", "--git-repo-id", "api",
		"--additional-properties", "packageName=api", "--global-property",
		"models,apis,supportingFiles,modelTests=false,apiTests=false,modelDocs=false,apiDocs=false"))
	place(t, "testdata/use.go", filepath.Join(client, "use", "main.go"))
	output(t, command(t, client, "go", "mod", "tidy"))
	output(t, command(t, client, "go", "vet", "./..."))
	output(t, command(t, client, "go", "build", "-o", "used", "./use"))
	return command(t, client, filepath.Join(client, "used"))
}

// pythonClient generates a client with openapi-python-client and compiles it.
func pythonClient(t *testing.T, document string) *exec.Cmd {
	t.Helper()
	folder := t.TempDir()
	place(t, "requirements.txt", filepath.Join(folder, "requirements.txt"))
	output(t, command(t, folder, "python3", "-m", "venv", "venv"))
	bin := filepath.Join(folder, "venv", "bin")
	output(t, command(t, folder, filepath.Join(bin, "pip"), "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--requirement",
		"requirements.txt"))
	generate := command(t, folder, filepath.Join(bin, "openapi-python-client"), "generate", "--path", document,
		"--meta", "none", "--output-path", "postrider_client", "--fail-on-warning")
	generate.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH")) // it formats with ruff
	output(t, generate)
	output(t, command(t, folder, filepath.Join(bin, "python"), "-m", "compileall", "-q", "postrider_client"))
	place(t, "testdata/use.py", filepath.Join(folder, "use.py"))
	return command(t, folder, filepath.Join(bin, "python"), "use.py")
}

// command returns a program to run in a folder. It ends with the test.
func command(t *testing.T, folder, name string, args ...string) *exec.Cmd {
	t.Helper()
	program := exec.CommandContext(t.Context(), name, args...)
	program.Dir = folder
	return program
}

// output runs a program, which must succeed, and returns what it wrote.
func output(t *testing.T, program *exec.Cmd) string {
	t.Helper()
	out, err := program.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v (make setup installs the programs)\n%s", program.Args, err, out)
	}
	return string(out)
}

// place copies a file.
func place(t *testing.T, from, to string) {
	t.Helper()
	text, err := os.ReadFile(from)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(to), 0o755)
	}
	if err == nil {
		err = os.WriteFile(to, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}
