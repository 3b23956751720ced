package client_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestAProgramRequiresTheClientAsDocumented runs the commands in the package comment.
func TestAProgramRequiresTheClientAsDocumented(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("client.go")
	if err != nil {
		t.Fatal(err)
	}
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	program := t.TempDir()
	files := map[string]string{
		"go.mod":  "module example.com/program\n\ngo 1.26.0\n",
		"main.go": "package main\n\nimport \"github.com/postrider/postrider/client\"\n\nfunc main() { client.New(\"http://127.0.0.1\", \"key\", client.Options{}) }\n",
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(program, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	commands := regexp.MustCompile(`(?m)^//\tgo (.*)$`).FindAllStringSubmatch(string(source), -1)
	if len(commands) != 3 {
		t.Fatalf("the package comment has the commands %q, want three", commands)
	}
	for _, arguments := range append(commands, []string{"", "build -o program ."}) {
		line := strings.ReplaceAll(arguments[1], "FOLDER", root)
		command := exec.CommandContext(t.Context(), "go", strings.Fields(line)...)
		command.Dir, command.Env = program, append(os.Environ(), "GOPROXY=off", "GOSUMDB=off", "GOFLAGS=", "GOWORK=off")
		if out, err := command.CombinedOutput(); err != nil {
			t.Errorf("go %s: %v\n%s", line, err, out)
		}
	}
}
