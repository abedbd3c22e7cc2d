package conformance_test

import (
	"context"
	"encoding/pem"
	"fmt"
	"net/http/httptest"

	"github.com/capstan-dev/capstan/runtime/conformance"
	"github.com/capstan-dev/capstan/runtime/hook"
	"github.com/capstan-dev/capstan/runtime/server"
)

// Any server can be checked by its URL, in whatever language it is written.
func ExampleRun() {
	extension, err := server.New(server.Options{},
		server.Handle(hook.BeforeClusterCreate, "create",
			func(context.Context, *createRequest, *createResponse) error { return nil }))
	if err != nil {
		fmt.Println(err)
		return
	}
	s := httptest.NewTLSServer(extension)
	defer s.Close()
	report, err := conformance.Run(context.Background(), conformance.Target{
		URL: s.URL, CA: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}),
		Only: []string{"malformed", "same-again"},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, result := range report.Results {
		fmt.Println(result.Name, result.Verdict)
	}
	// Output:
	// discovery passed
	// answers passed
	// same-again passed
	// malformed passed
}
