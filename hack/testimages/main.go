// Testimages builds the container images that other projects' test suites run; package test/images does the work.
//
//	go run ./hack/testimages              # those of the conformance tests of Kubernetes, in bin/testimages/conformance
//	go run ./hack/testimages critest      # those of critest, in bin/testimages/critest
//	capstan image load bin/testimages/conformance
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/capstan-dev/capstan/test/images"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	suite := "conformance"
	if len(os.Args) > 1 {
		suite = os.Args[1]
	}
	root, err := os.Getwd()
	var made string
	if err == nil {
		made, err = images.Make(ctx, root, filepath.Join(root, "bin", "testimages"), suite, func(text string) {
			fmt.Fprintln(os.Stderr, "→", text)
		})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "testimages:", err)
		os.Exit(1)
	}
	fmt.Println(made)
}
