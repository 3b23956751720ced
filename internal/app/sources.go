package app

import (
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

// Sources fills settings that the command line leaves open: from the
// POSTRIDER_* environment, and after that from the file of --config. It is the
// [kong.Resolver] of one parse.
//
// What cannot be read is kept for [Sources.Check], so that an operator sees
// all the mistakes at once.
type Sources struct {
	environ map[string]string
	origins map[string]string // setting → how the operator typed it; none: its default
	entries map[string]entry  // of the file; nil: not read yet
	faults  []error
}

// entry is one setting of the file.
type entry struct {
	key  string // as typed, with file and line
	text string
}

// NewSources returns sources with the variables of environ, each NAME=value,
// which is [os.Environ] but in tests.
func NewSources(environ []string) *Sources {
	s := &Sources{environ: map[string]string{}, origins: map[string]string{}}
	for _, variable := range environ {
		name, text, _ := strings.Cut(variable, "=")
		s.environ[name] = text
	}
	return s
}

// Validate accepts every application.
func (s *Sources) Validate(*kong.Application) error { return nil }

// Resolve returns the text of a setting, or nil where no source has it or its
// text cannot be read as the setting's type.
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
		return nil, nil //nolint:nilerr // Check reports it together with the others
	}
	s.origins[flag.Name] = found.key
	return found.text, nil
}

// Check returns all that is wrong with the settings: what the sources could
// not read and what validate, a Validate method, refuses.
func (s *Sources) Check(validate func(named func(string) string) error) error {
	return errors.Join(append(slices.Clone(s.faults), validate(s.named))...)
}

// CheckVariables returns what is wrong with the names of the POSTRIDER_*
// variables, for commands without a [Config]: where there is one, Check says it
// together with all else.
func (s *Sources) CheckVariables() error {
	if s.entries != nil {
		return nil
	}
	return errors.Join(s.strangers()...)
}

// Origin returns how the operator typed a setting, or "default".
func (s *Sources) Origin(setting string) string {
	if origin, ok := s.origins[setting]; ok {
		return origin
	}
	return "default"
}

func (s *Sources) named(setting string) string {
	if origin, ok := s.origins[setting]; ok {
		return origin
	}
	return "--" + setting
}

// begin notes what the command line has and reads the file.
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
	s.faults = append(s.faults, s.strangers()...)
	if path == "" {
		return
	}
	if err := s.readFile(path); err != nil {
		s.faults = append(s.faults, &Fault{Key: s.fileKey(), Reason: reasonOf(err)})
	}
}

func (s *Sources) fileKey() string {
	if _, typed := s.origins["config"]; typed {
		return "--config"
	}
	return variable("config")
}

// find looks a setting up. An empty variable is as good as none: compose files
// make them.
func (s *Sources) find(setting string) (entry, bool) {
	if text := s.environ[variable(setting)]; text != "" {
		return entry{variable(setting), text}, true
	}
	found, ok := s.entries[setting]
	return found, ok
}

// ofCommands are the variables of commands that talk to a server, by the names
// that settings would have. They may be
// set where a server runs, and the server's where commands run: both take one env file.
var ofCommands = []string{"url", "api-key", "key-file", "secret"}

// strangers returns a fault for each POSTRIDER_* variable that nothing reads.
func (s *Sources) strangers() (faults []error) {
	names := slices.Concat(settingNames(), ofCommands)
	for _, name := range slices.Sorted(maps.Keys(s.environ)) {
		rest, ours := strings.CutPrefix(name, variable(""))
		known := slices.ContainsFunc(names, func(n string) bool { return variable(n) == name })
		if !ours || known || s.environ[name] == "" || ofCluster(name, s.environ[name]) {
			continue
		}
		reason := "is no setting"
		if like := closest(rest, names); like != "" {
			reason += "; is " + variable(like) + " meant?"
		}
		faults = append(faults, &Fault{Key: name, Reason: reason})
	}
	return faults
}

var serviceLink = regexp.MustCompile(`_(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT_\d+_(TCP|UDP|SCTP)(_\w+)?)$`)

// ofCluster tells the variables that Kubernetes sets in every pod for a service
// whose name begins with postrider.
func ofCluster(name, text string) bool {
	return serviceLink.MatchString(name) || (strings.HasSuffix(name, "_PORT") && strings.Contains(text, "://"))
}

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

// refuseEntry says what is wrong with an entry of the file; empty: nothing.
func (s *Sources) refuseEntry(setting string, value *yaml.Node) string {
	_, twice := s.entries[setting]
	switch {
	case !slices.Contains(settingNames(), setting) || setting == "config":
		return "is no setting" + suggestion(setting)
	case twice:
		return "is set twice"
	case value.Kind == yaml.AliasNode:
		return "must be a plain value"
	case value.Kind == yaml.SequenceNode && slices.ContainsFunc(value.Content, func(n *yaml.Node) bool { return n.Kind != yaml.ScalarNode }):
		return "must be a list of plain values"
	}
	return ""
}

// textOf returns a value as a flag would have it, lists with commas.
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

// suggestion asks for the setting that may be meant.
func suggestion(unknown string) string {
	if like := closest(unknown, settingNames()); like != "" {
		return "; is " + like + " meant?"
	}
	return ""
}

// closest returns the name whose beginning is most like the unknown one; empty:
// none is.
func closest(unknown string, names []string) string {
	unknown = strings.ToLower(strings.ReplaceAll(unknown, "_", "-"))
	best, same := "", 3 // fewer letters say nothing
	for _, name := range names {
		n := 0
		for n < min(len(name), len(unknown)) && name[n] == unknown[n] {
			n++
		}
		if n > same {
			best, same = name, n
		}
	}
	return best
}

// isSetting tells the flags of Config from those of commands that happen to
// have the same name, as --concurrency of an endpoint.
func isSetting(flag *kong.Flag) bool {
	return flag.Tag != nil && flag.Tag.Has("setting") && slices.Contains(settingNames(), flag.Name)
}

func settingNames() []string {
	var names []string
	for _, s := range (Config{}).Settings() {
		names = append(names, s.Name)
	}
	return names
}

// variable returns the name of a setting in the environment.
func variable(setting string) string {
	return "POSTRIDER_" + strings.ToUpper(strings.ReplaceAll(setting, "-", "_"))
}

// HelpText returns the help of a flag with the variable that sets it too.
func HelpText(value *kong.Value) string {
	text := kong.DefaultHelpValueFormatter(value)
	if value.Flag == nil || !isSetting(value.Flag) {
		return text
	}
	return strings.TrimSuffix(text, ".") + " ($" + variable(value.Name) + ")."
}

// Print returns the settings as a YAML file, secrets masked.
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
