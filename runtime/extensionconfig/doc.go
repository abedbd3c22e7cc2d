// Package extensionconfig keeps a management cluster's runtime extensions registered. It has a controller for
// ExtensionConfigs and a validator for their admission webhook.
//
//	calls, err := client.New(client.Options{Reader: mgr.GetClient()})
//	...
//	err = (&extensionconfig.Reconciler{Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(), Runtime: calls}).SetupWithManager(mgr, controller.Options{})
//
// # What the controller does with an ExtensionConfig
//
//   - It copies the CA certificate into caBundle from the Secret named by the annotation
//     runtime.cluster.x-k8s.io/inject-ca-from-secret (RC-09), and copies it again when the Secret changes.
//   - It asks the extension for its handlers and writes them into the status (RC-11 to RC-15). It asks again when the
//     ExtensionConfig changes, when the client suspects that the extension was redeployed, and periodically.
//   - It registers the handlers with the client, which calls them (RC-18). If the extension can't be reached, its
//     previous handlers stay registered.
//   - It leaves a paused ExtensionConfig unchanged. It unregisters a deleted one, paused or not.
//
// # Conditions
//
//   - Discovered is False if any of these steps failed. Its message says what to do (RC-16).
//   - Paused reports whether the ExtensionConfig is paused.
//   - [HooksCurrentCondition] is False if handlers serve deprecated versions of hooks (RC-22).
//   - [OverridesUsedCondition] is False if an annotation is for a handler that does not exist.
//   - HooksKnown, of package client, is False if handlers serve hooks that the client does not know.
//
// The last three are absent if there is nothing to report.
//
// # Startup
//
// Before any hook is called, the controller asks all extensions concurrently for their handlers. An extension that
// does not answer is registered with its previous handlers. If it has never answered, the startup waits for it, but
// only for [Reconciler.Patience]: one broken extension must not stop the management cluster.
//
// Ids such as RC-09 are rules of the Runtime SDK's contract; RULES.md in the module's root explains them.
package extensionconfig
