package main

import (
	"os"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestThePageOfSubscriptionsRuns compares the commands of docs/subscriptions.md with those that
// testdata/script/subscriptions.txtar runs. The page starts the server by a command, too.
func TestThePageOfSubscriptionsRuns(t *testing.T) {
	t.Parallel()
	shown := commandsIn(t, "../../docs/subscriptions.md", `(?m)^    (?:POSTRIDER_API_KEY=\S+ )?postrider (.+)$`)
	run := commandsIn(t, "testdata/script/subscriptions.txtar", `(?m)^(?:exec|until '[^']*') postrider (.+)$`)
	if diff := cmp.Diff(append([]string{"serve --dev"}, run...), shown); diff != "" {
		t.Errorf("the commands of the script and of the page (-script +page):\n%s", diff)
	}
}

// commandsIn returns the group of each match of the pattern in a file.
func commandsIn(t *testing.T, name, pattern string) (commands []string) {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for _, match := range regexp.MustCompile(pattern).FindAllStringSubmatch(string(text), -1) {
		commands = append(commands, match[1])
	}
	if len(commands) < 20 {
		t.Fatalf("%s has only %d commands", name, len(commands))
	}
	return commands
}
