// Package extensionconfig keeps the runtime extensions of a management cluster registered: a controller for
// ExtensionConfigs, and what their admission webhook should say.
//
//	calls, err := client.New(client.Options{Reader: mgr.GetClient()})
//	...
//	err = (&extensionconfig.Reconciler{Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(), Runtime: calls}).SetupWithManager(mgr, controller.Options{})
//
// # What the controller does with an ExtensionConfig
//
//   - It copies the CA certificate from the Secret that the annotation runtime.cluster.x-k8s.io/inject-ca-from-secret
//     names into caBundle (RC-09), again when the Secret changes.
//   - It asks the extension which handlers it has, and writes them into the status (RC-11 to RC-15). It asks again when
//     the ExtensionConfig changes, when the client has a reason to think that the extension was deployed anew, and now
//     and then.
//   - It registers them with the client, from where they are called (RC-18). If the extension can't be asked, what it
//     said before stays.
//   - A paused one is left as it is. A deleted one is unregistered, paused or not.
//
// # What its conditions say
//
//   - Discovered is False if anything of that failed. Its message says what to do (RC-16).
//   - Paused.
//   - [HooksCurrentCondition] is False if handlers are for versions of hooks that are deprecated (RC-22).
//   - [OverridesUsedCondition] is False if an annotation is for a handler that does not exist.
//   - HooksKnown, of package client, is False if handlers are for hooks that are not known here.
//
// The last three are absent if there is nothing to say.
//
// # At the start
//
// Before anything is called all extensions are asked, at the same time. One that does not answer is registered with
// what it said before. For one that has never answered the start waits, but not for ever ([Reconciler.Patience]): one
// broken extension must not stop the management cluster.
package extensionconfig
