package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/postrider/postrider"
)

// completionCmd is the command completion. It prints a completion script, which people load in the
// start file of their shell.
type completionCmd struct {
	noSettings

	Shell string `arg:"" enum:"bash,zsh,fish" help:"The shell: bash, zsh or fish."`
}

// Help returns the text above the flags in the help of the command.
func (completionCmd) Help() string {
	return `Put the line of your shell into its start file:

  bash:  source <(postrider completion bash)       in ~/.bashrc
  zsh:   source <(postrider completion zsh)        in ~/.zshrc, after compinit
  fish:  postrider completion fish | source        in ~/.config/fish/config.fish`
}

// The scripts call the hidden command __complete for the words that may come next. They contain no
// command and no flag, so they stay valid when the program is upgraded. If __complete prints
// nothing, as for files and free values, the shell offers files.
var completionScripts = map[string]string{
	// Bash itself splits words at = and :, and replaces only the part after the last
	// of these characters.
	"bash": `_postrider() {
  local line="${COMP_LINE:0:COMP_POINT}" words word before IFS=$' \t\n'
  read -ra words <<< "$line"
  [[ $line == *[[:space:]] ]] && words+=("")
  word="${words[${#words[@]}-1]}"
  IFS=$'\n'
  COMPREPLY=($(compgen -W "$(postrider __complete "${words[@]:1}" 2>/dev/null | cut -f1)" -- "$word"))
  before="${word%"${word##*["$COMP_WORDBREAKS"]}"}"
  COMPREPLY=("${COMPREPLY[@]#"$before"}")
}
complete -o default -F _postrider postrider
`,
	"zsh": `_postrider() {
  local line
  local -a found
  for line in "${(@f)$(postrider __complete "${(@)words[2,CURRENT]}" 2>/dev/null)}"; do
    [[ -n $line ]] && found+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}")
  done
  if (( $#found )); then _describe postrider found; else _files; fi
}
compdef _postrider postrider
`,
	"fish": `function __postrider_complete
  set -l words (commandline --tokenize --cut-at-cursor --current-process)
  set -l found (postrider __complete $words[2..-1] (commandline --current-token --cut-at-cursor) 2>/dev/null)
  if set --query found[1]
    printf '%s\n' $found
  else
    __fish_complete_path (commandline --current-token --cut-at-cursor)
  end
end
complete --command postrider --no-files --arguments '(__postrider_complete)'
`,
}

// Run prints the script.
func (c *completionCmd) Run(t terminal) error {
	_, err := fmt.Fprint(t.out, completionScripts[c.Shell])
	return err
}

// completeCmd is the hidden command __complete. Words are the words of the command line up to the
// cursor. The last word is unfinished and may be empty.
type completeCmd struct {
	noSettings

	Words []string `arg:"" optional:""`
}

// Run prints the candidates for the last word, one a line: the word, a tab and a description.
func (c *completeCmd) Run(t terminal, k *kong.Kong) error {
	words := c.Words
	if len(words) == 0 {
		words = []string{""}
	}
	for _, found := range candidates(k.Model.Node, words) {
		if _, err := fmt.Fprintln(t.out, found); err != nil {
			return err
		}
	}
	return nil
}

// candidates returns the completions of the last word, below a node of the command line. It walks
// the complete words first: a command leads to its node, the word after a flag is the flag's value,
// and any other word is an argument. Enums and presets offer their values; files and free values
// offer none. For example:
//
//	postrider endp│                        endpoints
//	postrider endpoints list --st│         --status
//	postrider endpoints list --status │    enabled, paused, disabled
//
// kong cannot do this itself, because it parses only whole command lines. Its model of the commands
// has all that candidates needs.
func candidates(node *kong.Node, words []string) (found []string) {
	flags, positions := node.Flags, 0
	var waiting *kong.Flag // the last flag, if its value is missing
	for _, word := range words[:len(words)-1] {
		name, isFlag := strings.CutPrefix(word, "--")
		i := slices.IndexFunc(node.Children, func(n *kong.Node) bool { return n.Name == word })
		switch {
		case waiting != nil:
			waiting = nil
		case isFlag:
			waiting = valued(flags, name)
		case i >= 0:
			node = node.Children[i]
			// A command also accepts the flags of the commands above it.
			flags = append(slices.Clone(flags), node.Flags...)
		default:
			positions++
		}
	}
	// The last word is a value, a flag, a command or an argument; the cases are in this order.
	last := words[len(words)-1]
	add := func(before, word, about string) {
		if strings.HasPrefix(before+word, last) && word != "" {
			found = append(found, before+word+"\t"+about)
		}
	}
	name, _, assigned := strings.Cut(last, "=")
	switch {
	case waiting != nil:
		for _, value := range valuesOf(waiting) {
			add("", value, "")
		}
	case strings.HasPrefix(last, "-") && assigned:
		if f := valued(flags, strings.TrimPrefix(name, "--")); f != nil {
			for _, value := range valuesOf(f) {
				add(name+"=", value, "")
			}
		}
	case strings.HasPrefix(last, "-"):
		for _, f := range flags {
			if !f.Hidden {
				add("--", f.Name, about(f.Help))
			}
		}
	case len(node.Children) > 0:
		for _, n := range node.Children {
			if !n.Hidden {
				add("", n.Name, about(n.Help))
			}
		}
	case positions < len(node.Positional):
		for value := range strings.SplitSeq(node.Positional[positions].Enum, ",") {
			add("", value, "")
		}
	}
	return found
}

// valuesOf returns the values that a flag accepts. If the flag also accepts JSON or longer texts,
// valuesOf returns only the names.
func valuesOf(f *kong.Flag) []string {
	switch {
	case f.Enum != "":
		return strings.Split(f.Enum, ",")
	case f.Name == "retry":
		return postrider.Presets()
	case f.Name == "circuit":
		return slices.Sorted(maps.Keys(postrider.CircuitPresets))
	case f.Name == "signature":
		var names []string
		for _, scheme := range postrider.Schemes {
			names = append(names, string(scheme))
		}
		return names
	}
	return nil
}

// valued returns the flag with this name if the flag needs a value; otherwise nil. A boolean flag
// needs none, so the word after it is not its value.
func valued(flags []*kong.Flag, name string) *kong.Flag {
	i := slices.IndexFunc(flags, func(f *kong.Flag) bool { return f.Name == name })
	if i < 0 || flags[i].IsBool() {
		return nil
	}
	return flags[i]
}

// about returns the first sentence of a help text, without its full stop.
func about(help string) string {
	first, _, _ := strings.Cut(help, ". ")
	return strings.TrimSuffix(first, ".")
}
