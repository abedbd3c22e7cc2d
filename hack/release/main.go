// Command release builds a release of Capstan, or parts of one:
//
//	go run ./hack/release -version v0.1.0 [-image-prefix REGISTRY/PATH] [-out dist] [-date UNIX] [-arch amd64] [-- FLAGS OF go build]
//	go run ./hack/release -version v0.1.0 -yaml      the provider repository only: a second instead of minutes
//	go run ./hack/release -docs docs/flavors.md      the page about templates, classes and variables
//
// It must run in the root of the repository.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/capstan-dev/capstan/release"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	flags := flag.NewFlagSet("release", flag.ContinueOnError)
	o := release.Options{Source: "."}
	flags.StringVar(&o.Version, "version", "", "version, such as v0.1.0")
	flags.StringVar(&o.ImagePrefix, "image-prefix", "", "registry and path of the images")
	out := flags.String("out", "dist", "`directory` to write to")
	onlyYAML := flags.Bool("yaml", false, "make the provider repository only")
	date := flags.Int64("date", 0, "date of the release in seconds since 1970, for a release that can be made again")
	arch := flags.String("arch", "", "only architecture to build for, for a release to try out (default: all of them)")
	docs := flags.String("docs", "", "write the page about templates to this `file`, and nothing else")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *docs != "" {
		page, err := release.Page(o.Source)
		if err != nil {
			return err
		}
		return os.WriteFile(*docs, page, 0o644)
	}
	if *onlyYAML {
		files, err := release.Repository(o)
		if err != nil {
			return err
		}
		return release.Write(files, *out)
	}
	settings := release.Settings{
		Date: time.Unix(*date, 0).UTC(), Flags: flags.Args(), Progress: func(what string) { fmt.Println("→ building", what) },
	}
	if *arch != "" {
		settings.Architectures = []string{*arch}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM) // also stops the compilers
	defer stop()
	return release.Build(ctx, o, settings, *out)
}
