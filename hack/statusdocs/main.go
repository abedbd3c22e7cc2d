// Command statusdocs writes references of conditions, Events and settings of the agent, from their Go docs and the
// calls that record them.
//
//	go run ./hack/statusdocs . docs/reference
package main

import (
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: statusdocs SOURCE-DIRECTORY OUTPUT-DIRECTORY")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "statusdocs:", err)
		os.Exit(1)
	}
}

func run(root, to string) error {
	for name, page := range pages {
		text, err := page(root)
		if err != nil {
			return fmt.Errorf("making %s: %w", name, err)
		}
		if err := os.WriteFile(filepath.Join(to, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}
