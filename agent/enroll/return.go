package enroll

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"

	"github.com/capstan-dev/capstan/agent/config"
	"github.com/capstan-dev/capstan/internal/enrolment"
)

// Return asks the plane to replace the host's last token, which has expired. The plane is the one with which the host
// enrolled. The host proves that it still has its key. Return asks once; a refusal by the plane is an
// *enrolment.Refusal.
func Return(ctx context.Context, c config.Config, last, version string) (token string, err error) {
	key, err := readKey(c.StateDir)
	if err != nil {
		return "", err
	}
	shown, err := certificate(key)
	if err != nil {
		return "", err
	}
	roots, err := c.Roots()
	if err != nil {
		return "", err
	}
	server, err := connect(c.Enrolment, shown, func(host string) *tls.Config {
		return &tls.Config{MinVersion: tls.VersionTLS13, ServerName: host, RootCAs: roots}
	})
	if err != nil {
		return "", err
	}
	answer, err := server.ask(ctx, enrolment.ReturnPath, enrolment.Return{Token: last, Version: version})
	if err != nil {
		return "", fmt.Errorf("returning to the plane: %w", err)
	}
	if answer.Host != c.Host || answer.Namespace != c.Namespace || answer.Token == "" {
		return "", errors.New("returning to the plane: its answer is for another host")
	}
	return answer.Token, nil
}
