// The device's key in Android's key store.

package tributary.android

import android.security.keystore.KeyGenParameterSpec
import android.security.keystore.KeyProperties
import java.security.KeyPair
import java.security.KeyPairGenerator
import java.security.KeyStore
import java.security.PrivateKey
import java.security.spec.ECGenParameterSpec

private const val PROVIDER = "AndroidKeyStore"

/** A key pair on P-256 that never leaves the key store, made at its first use. */
@Suppress("FunctionName")
fun AndroidKeys(alias: String): PairKeys = PairKeys {
    val store = KeyStore.getInstance(PROVIDER).apply { load(null) }
    val certificate = store.getCertificate(alias)
    if (certificate != null) {
        KeyPair(certificate.publicKey, store.getKey(alias, null) as PrivateKey)
    } else {
        val spec = KeyGenParameterSpec.Builder(alias, KeyProperties.PURPOSE_SIGN)
            .setAlgorithmParameterSpec(ECGenParameterSpec("secp256r1"))
            .setDigests(KeyProperties.DIGEST_SHA256)
            .build()
        KeyPairGenerator.getInstance(KeyProperties.KEY_ALGORITHM_EC, PROVIDER).run {
            initialize(spec)
            generateKeyPair()
        }
    }
}
