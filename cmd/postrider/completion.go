package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

type completionCmd struct {
	aside

	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

// Help is what the help of the command says besides its flags.
func (completionCmd) Help() string {
	return `  bash:  source <(postrider completion bash)       in ~/.bashrc
  zsh:   source <(postrider completion zsh)        in ~/.zshrc, after compinit
  fish:  postrider completion fish | source        in ~/.config/fish/config.fish`
}

// The scripts ask the program itself what may come next. Where it has nothing
// to offer, which is at files and values of one's own, the shell offers files.
var completionScripts = map[string]string{
	"bash": `_postrider() {
  local IFS=$'\n' word="${COMP_WORDS[COMP_CWORD]}"
  COMPREPLY=($(compgen -W "$(postrider __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null | cut -f1)" -- "$word"))
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

type completeCmd struct {
	aside

	Words []string `arg:"" optional:""`
}

// Run prints what the last of the words may become: a word a line, and after a
// tab what it is.
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

// candidates returns what the last of the words may become, below a node.
func candidates(node *kong.Node, words []string) (found []string) {
	flags, positions := node.Flags, 0
	var waiting *kong.Flag // for its value
	for _, word := range words[:len(words)-1] {
		name, isFlag := strings.CutPrefix(word, "--")
		i := slices.IndexFunc(node.Children, func(n *kong.Node) bool { return n.Name == word })
		switch {
		case waiting != nil:
			if word != "=" { // at which bash splits --flag=value
				waiting = nil
			}
		case isFlag:
			waiting = valued(flags, name)
		case i >= 0:
			node = node.Children[i]
			flags = append(slices.Clone(flags), node.Flags...)
		default:
			positions++
		}
	}
	last := words[len(words)-1]
	add := func(before, word, about string) {
		if strings.HasPrefix(before+word, last) && word != "" {
			found = append(found, before+word+"\t"+about)
		}
	}
	name, _, assigned := strings.Cut(last, "=")
	switch {
	case waiting != nil:
		for value := range strings.SplitSeq(waiting.Enum, ",") {
			add("", value, "")
		}
	case strings.HasPrefix(last, "-") && assigned:
		if f := valued(flags, strings.TrimPrefix(name, "--")); f != nil {
			for value := range strings.SplitSeq(f.Enum, ",") {
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

// valued returns the flag of that name, if it takes a value.
func valued(flags []*kong.Flag, name string) *kong.Flag {
	i := slices.IndexFunc(flags, func(f *kong.Flag) bool { return f.Name == name })
	if i < 0 || flags[i].IsBool() {
		return nil
	}
	return flags[i]
}

// about returns the first sentence of a help text.
func about(help string) string {
	first, _, _ := strings.Cut(help, ". ")
	return strings.TrimSuffix(first, ".")
}
