// Command gen writes clusterapi.json: the descriptions in the source of Cluster API's hook types and of the types that
// these use. It reads the release that the Runtime SDK's module requires.
package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/capstan-dev/capstan/runtime/openapi/texts"
)

func main() {
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Version}}", texts.Module).Output()
	if err != nil {
		return fmt.Errorf("asking for the version of %s: %w", texts.Module, err)
	}
	data, err := texts.Read(ctx, strings.TrimSpace(string(out)))
	if err != nil {
		return err
	}
	return os.WriteFile("clusterapi.json", data, 0o644)
}
