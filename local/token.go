package local

import (
	"context"
	"errors"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/internal/hint"
	"github.com/capstan-dev/capstan/local/credential"
	"github.com/capstan-dev/capstan/local/enrol"
)

// Admission is a newly created enrolment credential and what a computer needs to use it.
type Admission struct {
	credential.Credential
	enrol.Invitation
	// Text is the credential itself. It is stored nowhere else.
	Text string `json:"credential"`
	// Command is the shell command to run as root on the computer, with the credential on its standard input.
	Command string `json:"command"`
}

// Admit creates a credential with which computers may become hosts of the plane of a home directory, valid for the
// given duration. Other computers must be able to reach the plane, so Admit first contacts it at the address that they
// will use.
func Admit(
	ctx context.Context, place Place, c client.Client, l credential.Limits, life time.Duration,
) (Admission, error) {
	status, err := Status(ctx, place)
	if err != nil {
		return Admission{}, err
	}
	if status.Plane != PhaseReady {
		return Admission{}, hint.Errorf("run: capstan up", "the management plane is not ready")
	}
	if status.Enrolment == "" {
		return Admission{}, hint.Errorf("make the plane reachable: capstan up --listen ADDRESS",
			"only this machine reaches the plane, so other computers can't become hosts")
	}
	path, err := Kubeconfig(place.Home)
	if err != nil {
		return Admission{}, err
	}
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		return Admission{}, hint.Errorf("run: capstan up", "reading %s: %w", path, err)
	}
	invitation, err := enrol.Invite(ctx, status.Enrolment, config.CAData)
	if err != nil {
		return Admission{}, hint.Errorf("see: capstan status; then run: capstan up", "%w", err)
	}
	now := time.Now()
	l.Expires = now.Add(life)
	text, made, err := credential.Create(ctx, c, l, now)
	if err != nil {
		return Admission{}, withHint(err)
	}
	return Admission{Credential: *made, Invitation: invitation, Text: text, Command: invitation.Command()}, nil
}

// withHint adds advice to an error that has none.
func withHint(err error) error {
	if err == nil || hint.Of(err) != "" || errors.Is(err, context.Canceled) {
		return err
	}
	return hint.Errorf("run: capstan status", "%w", err)
}
