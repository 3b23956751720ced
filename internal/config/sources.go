package config

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
	"go.yaml.in/yaml/v3"
)

// Sources fills the settings that the command line does not set. It takes them from the POSTRIDER_*
// environment variables, and then from the file of --config. It is the [kong.Resolver] of one
// parse.
//
// A setting has one name in all layers. The first layer that has the setting wins:
//
//	layer         form                          read by
//	command line  --drain-timeout 20s           kong, before Sources
//	environment   POSTRIDER_DRAIN_TIMEOUT=20s   find, in the environment
//	file          drain-timeout: 20s            find, in the entries of readFile
//	default       the tag default:"35s"         kong, after Sources
//
// In the file, nested keys are joined: drain: {timeout: 20s} is the same setting.
//
// kong has its own tags for variables and its own resolver for files. These stop at the first
// fault, and ignore a misspelt key or variable. Sources collects all faults for [Sources.Check],
// and remembers where each setting comes from. So an operator sees all faults at once, each with
// the setting as it was typed.
type Sources struct {
	// environ has all environment variables by name, including those of other programs.
	environ map[string]string
	// origins has, by setting, how the operator typed it. A setting without an entry has its
	// default.
	origins map[string]string
	// entries has the settings of the file, by name. Nil until begin has run.
	entries map[string]entry
	// faults are of the type [*Fault]. begin, Resolve and the functions that read the file add
	// them.
	faults []error
}

// entry is one setting from the environment or the file.
type entry struct {
	key  string // as typed; for the file, with its path and line
	text string // the value in the form of a flag
}

// NewSources returns sources with these environment variables. Each one has the form NAME=value.
// Programs pass [os.Environ].
func NewSources(environ []string) *Sources {
	s := &Sources{environ: map[string]string{}, origins: map[string]string{}}
	for _, variable := range environ {
		name, text, _ := strings.Cut(variable, "=")
		s.environ[name] = text
	}
	return s
}

// Validate is part of [kong.Resolver]. It accepts every application.
func (s *Sources) Validate(*kong.Application) error { return nil }

// Resolve returns the text of a setting, or nil if no source has the setting. kong calls it for
// each flag that the command line does not set.
//
// Resolve decodes the text into a temporary value, to see whether kong can decode it. If not, it
// notes a fault and returns nil. If it returned the error, kong would stop, and the operator would
// see only one fault at a time. The setting then has its default, but the program does not start
// with it, because every command calls Check first.
func (s *Sources) Resolve(ctx *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
	if !isSetting(flag) {
		return nil, nil
	}
	if s.entries == nil {
		s.begin(ctx)
	}
	found, ok := s.find(flag.Name)
	if !ok {
		return nil, nil
	}
	scratch := reflect.New(flag.Target.Type()).Elem()
	tokens := kong.Scan().PushTyped(found.text, kong.FlagValueToken)
	if err := flag.Mapper.Decode(&kong.DecodeContext{Value: flag.Value, Scan: tokens}, scratch); err != nil {
		s.faults = append(s.faults, &Fault{Key: found.key, Reason: err.Error()})
		return nil, nil //nolint:nilerr // Check reports the error together with all other faults
	}
	s.origins[flag.Name] = found.key
	return found.text, nil
}

// Check returns the faults of the sources and the faults that validate returns. validate is the
// method Validate of [Config] or [StoreConfig].
func (s *Sources) Check(validate func(named func(string) string) error) error {
	return errors.Join(append(slices.Clone(s.faults), validate(s.named))...)
}

// CheckVariables returns the faults in the names of POSTRIDER_* variables. It is for commands
// without a [Config]. For commands with a [Config] it returns nil, because Check reports these
// faults.
func (s *Sources) CheckVariables() error {
	if s.entries != nil {
		return nil
	}
	return errors.Join(s.unknownVariables()...)
}

// Origin returns how the operator typed a setting: as a flag, a variable or a key of the file. For
// a setting that has its default, it returns "default".
func (s *Sources) Origin(setting string) string {
	return cmp.Or(s.origins[setting], "default")
}

// named returns how the operator typed a setting. For a setting that has its default, it returns
// the flag.
func (s *Sources) named(setting string) string {
	return cmp.Or(s.origins[setting], "--"+setting)
}

// begin notes the flags of the command line and reads the file. Resolve calls it once, for the
// first setting. By then kong has parsed the command line, so the flag --config is known.
func (s *Sources) begin(ctx *kong.Context) {
	s.entries = map[string]entry{}
	path := ""
	for _, p := range ctx.Path {
		if p.Flag == nil || p.Resolved {
			continue
		}
		s.origins[p.Flag.Name] = "--" + p.Flag.Name
		if p.Flag.Name == "config" {
			path = fmt.Sprint(ctx.FlagValue(p.Flag))
		}
	}
	if path == "" {
		path = s.environ[variable("config")]
	}
	s.faults = append(s.faults, s.unknownVariables()...)
	if path == "" {
		return
	}
	if err := s.readFile(path); err != nil {
		s.faults = append(s.faults, &Fault{Key: s.fileKey(), Reason: reasonOf(err)})
	}
}

// fileKey returns how the operator named the file: the flag or the variable.
func (s *Sources) fileKey() string {
	return cmp.Or(s.origins["config"], variable("config"))
}

// find looks up a setting in the environment, and then in the file. An empty variable counts as not
// set, because compose files pass an unset variable as an empty one.
func (s *Sources) find(setting string) (entry, bool) {
	if text := s.environ[variable(setting)]; text != "" {
		return entry{variable(setting), text}, true
	}
	found, ok := s.entries[setting]
	return found, ok
}

// ofCommands are the settings of commands that talk to a server, as names of variables. The server
// accepts these variables, and the commands accept the server's variables, because both often read
// the same env file.
var ofCommands = []string{"url", "api-key", "key-file", "secret"}

// unknownVariables returns a fault for each POSTRIDER_* variable that no setting and no command
// reads. Without it, a misspelt variable would have no effect and cause no message.
func (s *Sources) unknownVariables() (faults []error) {
	names := slices.Concat(settingNames(), ofCommands)
	for _, name := range slices.Sorted(maps.Keys(s.environ)) {
		suffix, ours := strings.CutPrefix(name, variable(""))
		known := slices.ContainsFunc(names, func(n string) bool { return variable(n) == name })
		if !ours || known || s.environ[name] == "" || ofCluster(name, s.environ[name]) {
			continue
		}
		reason := "is no setting"
		if like := closest(suffix, names); like != "" {
			reason += meant(variable(like))
		}
		faults = append(faults, &Fault{Key: name, Reason: reason})
	}
	return faults
}

// serviceLink matches the end of the variables that Kubernetes sets for a service.
var serviceLink = regexp.MustCompile(`_(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT_\d+_(TCP|UDP|SCTP)(_\w+)?)$`)

// ofCluster reports whether Kubernetes set the variable. For each service, Kubernetes sets several
// variables in every pod. The variables of a service named postrider begin
// with POSTRIDER_.
func ofCluster(name, text string) bool {
	return serviceLink.MatchString(name) || (strings.HasSuffix(name, "_PORT") && strings.Contains(text, "://"))
}

// readFile reads the settings of a YAML file. It notes a fault for each wrong entry. It returns an
// error only if the file as a whole cannot be read.
func (s *Sources) readFile(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var document yaml.Node
	if err := yaml.Unmarshal(text, &document); err != nil {
		return fmt.Errorf("is no YAML: %w", err)
	}
	if len(document.Content) == 0 {
		return nil // an empty file
	}
	if document.Content[0].Kind != yaml.MappingNode {
		return errors.New("must be a mapping of settings to values")
	}
	s.readMapping(document.Content[0], path, nil)
	return nil
}

// readMapping reads the entries of one mapping. The keys of nested mappings are joined with
// hyphens: b inside a is the setting a-b.
func (s *Sources) readMapping(node *yaml.Node, path string, above []string) {
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		names := append(slices.Clone(above), key.Value)
		if value.Kind == yaml.MappingNode {
			s.readMapping(value, path, names)
			continue
		}
		setting := strings.Join(names, "-")
		typed := fmt.Sprintf("%s in %s:%d", strings.Join(names, "."), path, key.Line)
		if reason := s.refuseEntry(setting, value); reason != "" {
			s.faults = append(s.faults, &Fault{Key: typed, Reason: reason})
			continue
		}
		s.entries[setting] = entry{typed, textOf(value)}
	}
}

// refuseEntry returns what is wrong with an entry of the file. Empty: the entry is right. The
// setting config is refused, because a file cannot name another file.
func (s *Sources) refuseEntry(setting string, value *yaml.Node) string {
	_, twice := s.entries[setting]
	switch {
	case !slices.Contains(settingNames(), setting) || setting == "config":
		return "is no setting" + meant(closest(setting, settingNames()))
	case twice:
		return "is set twice"
	case value.Kind == yaml.AliasNode:
		return "must be a plain value"
	case value.Kind == yaml.SequenceNode && slices.ContainsFunc(value.Content, func(n *yaml.Node) bool { return n.Kind != yaml.ScalarNode }):
		return "must be a list of plain values"
	}
	return ""
}

// textOf returns a value of the file in the form of a flag. A list becomes a text with commas.
func textOf(value *yaml.Node) string {
	if value.Kind == yaml.ScalarNode {
		return value.Value
	}
	texts := make([]string, 0, len(value.Content))
	for _, item := range value.Content {
		texts = append(texts, item.Value)
	}
	return strings.Join(texts, ",")
}

// isSetting reports whether a flag is a field of Config. A flag of a command may have the same
// name, for example --concurrency of an endpoint. No source may fill such a flag.
func isSetting(flag *kong.Flag) bool {
	return flag.Tag != nil && flag.Tag.Has("setting") && slices.Contains(settingNames(), flag.Name)
}

// settingNames returns the names of all settings, in the order of the help.
func settingNames() []string {
	var names []string
	for _, s := range (Config{}).Settings() {
		names = append(names, s.Name)
	}
	return names
}

// HelpText returns the help text of a flag. For a setting, the text also names the environment
// variable.
func HelpText(value *kong.Value) string {
	text := kong.DefaultHelpValueFormatter(value)
	if value.Flag == nil || !isSetting(value.Flag) {
		return text
	}
	return strings.TrimSuffix(text, ".") + " ($" + variable(value.Name) + ")."
}

// Print returns the settings as a YAML file that [Sources] can read. Secrets are masked. Settings
// with zero values and the path of the file are left out.
func Print(settings []Setting) (string, error) {
	document := yaml.Node{Kind: yaml.MappingNode}
	for _, s := range settings {
		if s.Name == "config" || reflect.ValueOf(s.Value).IsZero() {
			continue
		}
		var key, value yaml.Node
		key.SetString(s.Name)
		if err := value.Encode(s.Value); err != nil {
			return "", fmt.Errorf("print %s: %w", s.Name, err)
		}
		document.Content = append(document.Content, &key, &value)
	}
	text, err := yaml.Marshal(&document)
	if err != nil {
		return "", fmt.Errorf("print settings: %w", err)
	}
	return string(text), nil
}
