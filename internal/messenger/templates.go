package messenger

import (
	"embed"
	"errors"
	"fmt"
	"html/template"
	"io"
	"io/fs"
	"strings"
	text "text/template"
)

//go:embed templates/message.txt templates/message.html
var templateFiles embed.FS

// The file names of the templates. An operator's folder may have one of them, or both.
const textName, htmlName = "message.txt", "message.html"

// Templates are the layouts of emails, as text and as HTML. They are executed with a [Layout],
// whose texts are in the language of the reader.
type Templates struct {
	text *text.Template
	html *template.Template
}

// builtIn returns the templates that the program was built with.
func builtIn() *Templates {
	t, err := LoadTemplates(nil)
	if err != nil {
		panic(err) // cannot happen: the templates are part of the program, and a test renders them
	}
	return t
}

// LoadTemplates returns the built-in templates, but those in the folder replace them. Nil means no
// folder. If a template cannot be parsed or cannot render one of the examples, the error names the
// file and the line.
func LoadTemplates(folder fs.FS) (*Templates, error) {
	var t Templates
	source, err := readTemplate(folder, textName)
	if err == nil {
		t.text, err = text.New(textName).Option("missingkey=error").Parse(source)
	}
	if err != nil {
		return nil, fmt.Errorf("read template: %w", err)
	}
	if source, err = readTemplate(folder, htmlName); err == nil {
		t.html, err = template.New(htmlName).Option("missingkey=error").Parse(source)
	}
	if err != nil {
		return nil, fmt.Errorf("read template: %w", err)
	}
	for _, l := range examples {
		if err := errors.Join(t.text.Execute(io.Discard, l), t.html.Execute(io.Discard, l)); err != nil {
			return nil, fmt.Errorf("try template: %w", err)
		}
	}
	return &t, nil
}

// readTemplate returns the text of a template: from the folder if it is there, otherwise built-in.
func readTemplate(folder fs.FS, name string) (string, error) {
	if folder != nil {
		source, err := fs.ReadFile(folder, name)
		if !errors.Is(err, fs.ErrNotExist) {
			return string(source), err
		}
	}
	source, err := templateFiles.ReadFile("templates/" + name)
	return string(source), err
}

// examples are layouts that every template must be able to render: one with all parts, and one with
// none.
var examples = []Layout{
	{},
	{
		Language: "en", Brand: "Postrider", Title: "2 notices", Paragraphs: []string{"A paragraph."},
		Lines: []Line{
			{At: "2026-01-02 03:04 UTC", Text: "A notice.", URL: "https://hooks.example/portal/endpoints/ep_1"},
			{Text: "Another one."},
		},
		More: "and 1 more", Button: Link{"Open", "https://hooks.example/portal/notices"},
		Footer: []Link{{"Unsubscribe", "https://hooks.example/notices/unsubscribe/x"}},
	},
}

// render returns the message as text and as HTML.
func (t *Templates) render(l Layout) (plain, html string, err error) {
	var out, page strings.Builder
	if err := errors.Join(t.text.Execute(&out, l), t.html.Execute(&page, l)); err != nil {
		return "", "", fmt.Errorf("render message: %w", err)
	}
	return out.String(), page.String(), nil
}
