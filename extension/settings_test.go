package extension

import (
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/capstan-dev/capstan/extension/part"
	"github.com/capstan-dev/capstan/extension/part/parttest"
)

// Every setting is documented with its purpose, valid values and default, and so is the label of every part.
func TestSettingsAreDocumented(t *testing.T) {
	data, err := os.ReadFile("../docs/lifecycle-extensions.md")
	if err != nil {
		t.Fatal(err)
	}
	all, err := parts(Options{Reader: parttest.NewWorld(0), Log: slog.New(slog.DiscardHandler), Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	defer part.Close(all...)
	table, err := part.Settings(all...)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range table.All() {
		given := "empty"
		if s.Default != "" {
			given = "`" + s.Default + "`"
		}
		allowed := s.Allowed
		if allowed == "" {
			allowed = "any text"
		}
		if row := "| `" + s.Name + "` | " + s.Does + " | " + allowed + " | " + given +
			" |"; !strings.Contains(string(data), row) {
			t.Errorf("docs/lifecycle-extensions.md has no row\n%s", row)
		}
	}
	for _, p := range all {
		if !strings.Contains(string(data), "`"+part.Label(p.Name)+"`") {
			t.Errorf("docs/lifecycle-extensions.md does not name the label of %s", p.Name)
		}
	}
}
