/** Speech, in browsers that have a voice for the language. */
const isVoiceOf = (voice, language) => voice.lang.toLowerCase().split(/[-_]/)[0] === language.split("-")[0];

/** Whether the browser can speak a language. */
export const canSpeak = (language) =>
  "speechSynthesis" in window && speechSynthesis.getVoices().some((voice) => isVoiceOf(voice, language));

/** Speak a text, or be silent if something is spoken. */
export function speak(text, language) {
  if (speechSynthesis.speaking) return speechSynthesis.cancel();
  const utterance = new SpeechSynthesisUtterance(text);
  utterance.lang = language;
  return speechSynthesis.speak(utterance);
}
